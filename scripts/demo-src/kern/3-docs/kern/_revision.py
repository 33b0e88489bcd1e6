REVISION = "$Format:%H$"
