//go:build linux

package diskaudit

import (
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
)

// place is a line of /etc/fstab, a mount unit, or a partition type that says where a
// file system is mounted.
type place struct {
	// from names the line or unit in messages.
	from string
	// what is the device as fstab(5) names it, and where is the mount point.
	what, where string
	options     []string
}

func (p place) has(options ...string) bool {
	for _, o := range p.options {
		for _, wanted := range options {
			if o == wanted {
				return true
			}
		}
	}
	return false
}

func (p place) isFstab() bool { return strings.HasPrefix(p.from, "/etc/fstab") }

// subvolume is the option that names a subvolume of btrfs, or "".
func (p place) subvolume() string {
	for _, o := range p.options {
		if strings.HasPrefix(o, "subvol=") || strings.HasPrefix(o, "subvolid=") {
			return o
		}
	}
	return ""
}

// fstab returns the lines of an fstab that mount something in the root.
func fstab(text string) []place {
	var all []place
	for n, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		for i := range fields {
			fields[i] = unescaped(octal, fields[i], 8)
		}
		p := place{from: "/etc/fstab line " + strconv.Itoa(n+1), what: fields[0], where: fields[1]}
		if len(fields) > 3 {
			p.options = strings.Split(fields[3], ",")
		}
		all = append(all, p)
	}
	return all
}

func mountUnit(name, text string) place {
	p := place{from: name}
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		key, value, _ := strings.Cut(line, "=")
		value = strings.TrimSpace(value)
		if section != "[Mount]" {
			continue
		}
		switch strings.TrimSpace(key) {
		case "What":
			p.what = value
		case "Where":
			p.where = value
		case "Options":
			p.options = strings.Split(value, ",")
		}
	}
	return p
}

// typePlaces are the mount points of partitions by their type, as
// systemd-gpt-auto-generator(8) has them, in the order of the mounts.
var typePlaces = []struct {
	role   string
	places []string
}{
	{disk.RoleUsr, []string{"/usr"}},
	{disk.RoleVar, []string{"/var"}},
	{disk.RoleTmp, []string{"/var/tmp"}},
	{disk.RoleHome, []string{"/home"}},
	{disk.RoleSrv, []string{"/srv"}},
	{disk.RoleBoot, []string{"/boot"}},
	{disk.RoleESP, []string{"/efi", "/boot/efi", "/boot"}},
}

var (
	// octal is how fstab(5) writes blanks, and hex how udev writes them in links.
	octal = regexp.MustCompile(`\\[0-3][0-7]{2}`)
	hex   = regexp.MustCompile(`\\x[0-9a-fA-F]{2}`)
	// numbered are names of partitions: the disk, and the number.
	numbered = regexp.MustCompile(`^(/dev/(?:(?:sd|vd|xvd|hd)[a-z]+|(?:nvme\d+n\d+|mmcblk\d+)p))(\d+)$`)
)

func unescaped(codes *regexp.Regexp, text string, base int) string {
	return codes.ReplaceAllStringFunc(text, func(code string) string {
		n, _ := strconv.ParseUint(strings.TrimLeft(code, `\x`), base, 8) // the expression has only such numbers
		return string([]byte{byte(n)})
	})
}

// links are the folders of /dev/disk, with the tag of fstab(5) that means the same.
var links = map[string]string{"by-uuid": "UUID", "by-label": "LABEL", "by-partuuid": "PARTUUID", "by-partlabel": "PARTLABEL"}

// isDevice reports whether fstab's first field names a block device.
func isDevice(what string) bool {
	tag, _, tagged := strings.Cut(what, "=")
	if tagged {
		for _, t := range links {
			if t == tag {
				return true
			}
		}
	}
	return strings.HasPrefix(what, "/dev/")
}

// names reports whether fstab's first field names the partition. Names such as
// /dev/sda2 count if they begin with one of the disks.
func names(what string, p disk.Partition, disks []string) bool {
	tag, value, tagged := strings.Cut(what, "=")
	value = strings.Trim(value, `"'`)
	if rest, ok := strings.CutPrefix(what, "/dev/disk/"); ok {
		folder, name, _ := strings.Cut(rest, "/")
		tag, value, tagged = links[folder], unescaped(hex, name, 16), true
	}
	if !tagged {
		parts := numbered.FindStringSubmatch(path.Clean(what))
		if parts == nil {
			return false
		}
		n, err := strconv.Atoi(parts[2])
		for _, d := range disks {
			if d == parts[1] {
				return err == nil && n == p.Number && n != 0
			}
		}
		return false
	}
	switch tag {
	case "UUID":
		return value != "" && strings.EqualFold(value, p.UUID)
	case "LABEL":
		return value != "" && value == p.Label
	case "PARTUUID":
		return value != "" && strings.EqualFold(value, p.PartUUID)
	case "PARTLABEL":
		return value != "" && value == p.Name
	}
	return false
}

// disksOf are the names that this disk can have: that of the line for the root, or
// those of a machine's first disk.
func disksOf(places []place) []string {
	for _, p := range places {
		if parts := numbered.FindStringSubmatch(p.what); parts != nil && p.where == "/" {
			return []string{parts[1]}
		}
	}
	return []string{"/dev/sda", "/dev/vda", "/dev/xvda", "/dev/hda", "/dev/nvme0n1p", "/dev/mmcblk0p"}
}
