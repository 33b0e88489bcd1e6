@echo off
make %*
