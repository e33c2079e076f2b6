from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('inference', '0013_load_options'),
    ]

    operations = [
        migrations.CreateModel(
            name='UsageRecord',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('generation_id', models.CharField(max_length=64, unique=True)),
                ('user_id', models.BigIntegerField()),
                ('key_id', models.BigIntegerField(default=0)),
                ('model_name', models.CharField(max_length=128)),
                ('family', models.CharField(max_length=32)),
                ('prompt_tokens', models.PositiveBigIntegerField(default=0)),
                ('cached_tokens', models.PositiveBigIntegerField(default=0)),
                ('completion_tokens', models.PositiveBigIntegerField(default=0)),
                ('end', models.CharField(max_length=32)),
                ('at', models.DateTimeField(db_index=True)),
            ],
            options={
                'ordering': ['-at', '-id'],
                'indexes': [
                    models.Index(fields=['user_id', 'at'], name='usage_of_user'),
                    models.Index(fields=['key_id', 'at'], name='usage_of_key'),
                ],
            },
        ),
    ]
