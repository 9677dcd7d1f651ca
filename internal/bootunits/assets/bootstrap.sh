#!/bin/sh
# Joins this instance to an EKS cluster, with the flags of Amazon Linux 2's
# script of this name.
exec "{command}" bootstrap.sh "$@"
