"""A switch elsewhere: clients and coordinators with sockets, disks and journals.

Around the machines of `fediac.sessions`, which know none of these.
"""
