from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0005_names'),
    ]

    operations = [
        migrations.AddField(
            model_name='apikey',
            name='model_names',
            field=models.JSONField(blank=True, default=list, verbose_name='models'),
        ),
    ]
