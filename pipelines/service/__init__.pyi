from .app import create_app as create_app
from .app import serve as serve
from .settings import ServiceSettings as ServiceSettings
from .settings import load_settings as load_settings
from .starting import begin_service as begin_service
from .store import ServiceError as ServiceError
from .store import Store as Store
