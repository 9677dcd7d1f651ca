#!/bin/sh
case ${0##*/} in
kubelet) echo Kubernetes v1.34.4 ;;
containerd) echo github.com/containerd/containerd v2.1.4 ;;
ctr) for last; do :; done; echo "${last#name==}" ;;
aws) echo ip-10-0-1-2.eu-west-1.compute.internal ;;
systemctl)
	[ "$1" != start ] || : >"/run/started-$2"
	case " $* " in *" show "*) ;; *) exit 0 ;; esac
	for unit; do
		case $unit in *.service) ;; *) continue ;; esac
		state=inactive
		[ ! -e "/run/started-$unit" ] || state=active
		printf 'Id=%s\nLoadState=loaded\nActiveState=%s\nUnitFileState=disabled\nNeedDaemonReload=no\n\n' "$unit" $state
	done ;;
esac
