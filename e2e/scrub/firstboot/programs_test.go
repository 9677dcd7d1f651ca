//go:build linux

package firstboot

const (
	wants  = "/etc/systemd/system/multi-user.target.wants"
	active = "/fake/active" // a file for each running unit
)

// applets are the machine's other programs, by busybox.
var applets = []string{"cat", "cp", "dd", "ln", "mkdir", "mount", "rm", "sed", "sh", "tr", "truncate", "umount"}

// programs are scripts instead of programs that need devices and a running
// systemd.
var programs = map[string]string{
	"kubelet": "", "containerd": "", "ecr-credential-provider": "", "udevadm": "",
	"systemctl": `verb=$1; shift
setting() { sed -n "s/^$2=//p" "/etc/systemd/system/$1"; }
for unit; do
  case $verb:$unit in
  *:--*) ;;
  show:*)
    state=inactive enabled=disabled
    [ ! -e "` + active + `/$unit" ] || state=active
    [ ! -L "` + wants + `/$unit" ] || enabled=enabled
    printf 'Id=%s\nLoadState=loaded\nActiveState=%s\nUnitFileState=%s\nNeedDaemonReload=no\nTriggeredBy=\n\n' "$unit" $state $enabled ;;
  start:*.mount)
    : > "` + active + `/$unit"
    mkdir -p "$(setting "$unit" Where)"
    # A file system in memory in a disk's place.
    what='-t tmpfs disk'
    [ "$(setting "$unit" Options)" != bind ] || what="-o bind $(setting "$unit" What)"
    mount $what "$(setting "$unit" Where)" ;;
  start:*|restart:*) : > "` + active + `/$unit" ;;
  stop:*.mount) umount "$(setting "$unit" Where)"; rm -f "` + active + `/$unit" ;;
  stop:*) rm -f "` + active + `/$unit" ;;
  enable:*) mkdir -p ` + wants + `; ln -sf "/etc/systemd/system/$unit" "` + wants + `/$unit" ;;
  disable:*) rm "` + wants + `/$unit" ;;
  esac
done`,
	// containerd has one namespace with every requested image, pinned.
	"ctr": `case "$*" in
*"namespaces ls -q") echo k8s.io ;;
*name==*) image=${*#*name==}; echo "${image%%,*}" ;;
esac`,
	// An array as the kernel shows it, and its members' superblocks (version 1.2)
	// with the fields that first boot and scrub read: magic, UUID and name.
	"mdadm": `while [ $# -gt 2 ]; do shift; done
for member; do
  printf '\374\116\053\251\001\0\0\0\0\0\0\0\0\0\0\00123456789abcdefmachine:kubernetes' | dd of="$member" bs=1 seek=4096 conv=notrunc 2> /dev/null
  mkdir -p "/sys/block/${member##*/}/holders/md127"
done
truncate -s 131072 /dev/md127
ln -s ../md127 /dev/md/kubernetes`,
	// The fields of an XFS that first boot and scrub read: magic and UUID.
	"mkfs.xfs": `for argument; do
  case $argument in uuid=*) uuid=${argument#uuid=} ;; esac
done
truncate -s 0 "$argument"
truncate -s 131072 "$argument"
printf XFSB | dd of="$argument" conv=notrunc 2> /dev/null
printf "$(echo "$uuid" | tr -d - | sed 's/../\\x&/g')" | dd of="$argument" bs=1 seek=32 conv=notrunc 2> /dev/null`,
}
