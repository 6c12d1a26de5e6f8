"""A Django project in one application: orders, each announced in the transaction that places it.

    pip install ./client 'psycopg[binary]' 'django>=5.2' uvicorn
    export DATABASE_URL='postgres://user:secret@localhost:5432/app' DJANGO_SETTINGS_MODULE=examples.django_shop.settings
    python -m django migrate                  # makes the outbox table, too
    python -m django createsuperuser
    python -m uvicorn examples.django_shop.urls:application --port 8000

    curl -X PUT localhost:8000/orders/9f0cbb5c-0f0a-4a08-8a4b-0d0a4d3c1c11/ -d 'customer=ada&amount=30'

``/admin/`` shows the orders, and the outbox to look at.
"""

import os
from urllib.parse import unquote, urlsplit

_database = urlsplit(os.environ["DATABASE_URL"])

SECRET_KEY = os.environ.get("SECRET_KEY", "for trying it out only")
DEBUG = True
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
ROOT_URLCONF = "examples.django_shop.urls"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "openoutbox.django",
    "examples.django_shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "django.template.context_processors.request",
            ]
        },
    }
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": _database.hostname,
        "PORT": _database.port or 5432,
        "NAME": _database.path.removeprefix("/"),
        "USER": unquote(_database.username or ""),
        "PASSWORD": unquote(_database.password or ""),
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
