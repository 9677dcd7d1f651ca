#!/bin/sh
# Joins this instance to an EKS cluster. Accepts the flags of Amazon Linux 2's
# /etc/eks/bootstrap.sh.
exec "{command}" bootstrap.sh "$@"
