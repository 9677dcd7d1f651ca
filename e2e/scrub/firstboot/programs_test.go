//go:build linux

package firstboot

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// programs are those of the machine that this test binary stands in for, told
// apart by the name it is called by: what needs devices and a running systemd.
var programs = map[string]func(args []string) error{
	"systemctl": systemctl, "ctr": ctr, "mdadm": mdadm, "mkfs.xfs": mkfs,
	"mkdir":   func(args []string) error { return mkdir(args[1:]) },
	"cp":      func(args []string) error { return copyFolder(strings.TrimSuffix(args[1], "/."), args[2]) },
	"kubelet": nil, "containerd": nil, "ecr-credential-provider": nil,
}

const (
	units  = "/etc/systemd/system"
	wants  = units + "/multi-user.target.wants"
	active = "/fake/active" // a file for each unit that runs
)

func systemctl(args []string) error {
	verb, names := args[0], slices.DeleteFunc(slices.Clone(args[1:]), func(a string) bool { return strings.HasPrefix(a, "--") })
	for _, unit := range names {
		file := filepath.Join(active, unit)
		var err error
		switch verb {
		case "show":
			show(unit)
		case "start", "restart":
			if err = os.WriteFile(file, nil, 0o644); err == nil && strings.HasSuffix(unit, ".mount") {
				err = mount(unit)
			}
		case "stop":
			if strings.HasSuffix(unit, ".mount") {
				err = unix.Unmount(setting(unit, "Where"), unix.UMOUNT_NOFOLLOW)
			} else if err = os.Remove(file); os.IsNotExist(err) {
				err = nil
			}
		case "enable":
			err = enable(unit)
		case "disable":
			err = os.Remove(filepath.Join(wants, unit))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func show(unit string) {
	state, enabled := "inactive", "disabled"
	if _, err := os.Stat(filepath.Join(active, unit)); err == nil {
		state = "active"
	}
	if _, err := os.Lstat(filepath.Join(wants, unit)); err == nil {
		enabled = "enabled"
	}
	fmt.Printf("Id=%s\nLoadState=loaded\nActiveState=%s\nUnitFileState=%s\nNeedDaemonReload=no\n\n", unit, state, enabled)
}

// enable makes the link that systemd would make.
func enable(unit string) error {
	if err := os.MkdirAll(wants, 0o755); err != nil {
		return err
	}
	if err := os.Symlink(filepath.Join(units, unit), filepath.Join(wants, unit)); err != nil && !os.IsExist(err) {
		return err
	}
	return nil
}

// mount mounts what a unit says: a file system in memory in a disk's place.
func mount(unit string) error {
	where := setting(unit, "Where")
	if err := os.MkdirAll(where, 0o755); err != nil {
		return err
	}
	if setting(unit, "Options") == "bind" {
		return unix.Mount(setting(unit, "What"), where, "", unix.MS_BIND, "")
	}
	return unix.Mount("disk", where, "tmpfs", 0, "")
}

// setting is a line of a unit.
func setting(unit, name string) string {
	text, err := os.ReadFile(filepath.Join(units, unit))
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			return value
		}
	}
	return ""
}

// ctr has one namespace, in which every image is that is asked for.
func ctr(args []string) error {
	call := strings.Join(args, " ")
	_, image, _ := strings.Cut(call, "name==")
	image, _, _ = strings.Cut(image, ",") // every image is pinned
	switch {
	case strings.HasSuffix(call, "namespaces ls -q"):
		fmt.Println("k8s.io")
	case image != "":
		fmt.Println(image)
	}
	return nil
}

// mdadm makes an array as the kernel shows it, and its members' superblocks
// (version 1.2) as far as they are looked at: mark, UUID and name.
func mdadm(args []string) error {
	superblock := append([]byte("\xfc\x4e\x2b\xa9\x01"), make([]byte, 11)...)
	superblock = append(superblock, "0123456789abcdefmachine:kubernetes"...)
	for _, member := range args[len(args)-2:] {
		disk := make([]byte, 128<<10)
		copy(disk[4096:], superblock)
		if err := os.WriteFile(member, disk, 0o600); err != nil {
			return err
		}
		holders := filepath.Join("/sys/block", filepath.Base(member), "holders")
		if err := os.MkdirAll(filepath.Join(holders, "md127"), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile("/dev/md127", make([]byte, 128<<10), 0o600); err != nil {
		return err
	}
	return os.Symlink("../md127", "/dev/md/kubernetes")
}

// mkfs writes as much of an XFS as is looked at: its mark and its UUID.
func mkfs(args []string) error {
	device, at := args[len(args)-1], slices.Index(args, "-m")
	block := append([]byte("XFSB"), make([]byte, 28)...)
	var uuid []byte
	if _, err := fmt.Sscanf(strings.ReplaceAll(strings.TrimPrefix(args[at+1], "uuid="), "-", ""), "%x", &uuid); err != nil {
		return err
	}
	block = append(append(block, uuid...), bytes.Repeat([]byte{0}, 128<<10)...)
	return os.WriteFile(device, block, 0o600)
}

func mkdir(names []string) error {
	for _, n := range names {
		if err := os.MkdirAll(n, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(name, from))
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, 0o644)
	})
}
