from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('inference', '0009_download_sets'),
    ]

    operations = [
        migrations.AddField(
            model_name='modelconfig',
            name='is_pinned',
            field=models.BooleanField(default=False, help_text='never unloaded for another model', verbose_name='pinned'),
        ),
        migrations.AlterField(
            model_name='modelconfig',
            name='wanted',
            field=models.CharField(choices=[('loaded', 'loaded'), ('auto', 'on demand'), ('drained', 'drained'), ('unloaded', 'not loaded')], default='auto', max_length=8, verbose_name='wanted'),
        ),
    ]
