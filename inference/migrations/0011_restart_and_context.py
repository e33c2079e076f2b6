from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inference", "0010_on_demand")]

    operations = [
        migrations.AddField(
            model_name="modelconfig",
            name="restart_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="modelfile",
            name="config_context_len",
            field=models.PositiveIntegerField(default=0),
        ),
    ]
