//go:build linux

package diskaudit

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// mountOthers mounts the other file systems of the disk where the image mounts them. A
// file system that travels in the AMI without an audit is listed as unchecked.
func (m *machine) mountOthers() error {
	places, err := m.places()
	if err != nil {
		return err
	}
	disks := disksOf(places)
	slices.SortStableFunc(places, func(a, b place) int { return strings.Compare(a.where, b.where) })
	taken := map[string]bool{}
	for _, p := range places {
		if p.where == "/" || taken[p.where] {
			continue // of two lines for one place, systemd takes the first
		}
		taken[p.where] = true
		if err := m.mountPlace(p, disks); err != nil {
			m.unchecked("%s: %w", p.from, err)
		}
	}
	m.mountTypes(taken)
	for _, p := range m.Parts {
		if _, mounted := m.at[p.Number]; !mounted && !m.listed[p.Number] {
			m.notMounted(p)
		}
	}
	return nil
}

// unchecked adds a reason why the audit is incomplete.
func (m *machine) unchecked(format string, args ...any) {
	m.answer.Unchecked = append(m.answer.Unchecked, fmt.Errorf(format, args...).Error())
}

func (m *machine) note(format string, args ...any) {
	m.answer.Notes = append(m.answer.Notes, fmt.Sprintf(format, args...))
}

// places reads /etc/fstab and the mount units.
func (m *machine) places() ([]place, error) {
	h, err := host.Mounted(m.folder)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	text, err := h.Content("/etc/fstab")
	if err != nil {
		return nil, fmt.Errorf("reading /etc/fstab of the image: %w", err)
	}
	all := fstab(string(text))
	for _, folder := range []string{"/etc/systemd/system", "/usr/lib/systemd/system"} {
		entries, err := afero.ReadDir(h.Files, folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading the mount units of the image: %w", err)
		}
		for _, e := range entries {
			if name := path.Join(folder, e.Name()); strings.HasSuffix(name, ".mount") && e.Mode().IsRegular() {
				text, err := h.Content(name)
				if err != nil {
					return nil, fmt.Errorf("reading a mount unit of the image: %w", err)
				}
				all = append(all, mountUnit(name, string(text)))
			}
		}
	}
	for i := range all {
		all[i].where = path.Clean(all[i].where)
	}
	return slices.DeleteFunc(all, func(p place) bool { return !path.IsAbs(p.where) }), nil
}

// mountPlace mounts what a line or unit names, if this disk has it.
func (m *machine) mountPlace(p place, disks []string) error {
	switch {
	case p.has("bind", "rbind"):
		return m.bound(p)
	case !isDevice(p.what):
		return nil
	}
	i := slices.IndexFunc(m.Parts, func(s source) bool { return names(p.what, s.Partition, disks) })
	if i < 0 {
		if strings.HasPrefix(p.from, "/etc/fstab") && !p.has("nofail", "noauto") {
			m.note("%s: %s is on %s, which this disk does not have: without that volume and without nofail, the "+
				"machine does not boot", p.from, p.where, p.what)
		}
		return nil
	}
	part := m.Parts[i]
	at, mounted := m.at[part.Number]
	switch {
	case !mountable(part.Partition):
		return nil // swap, or listed as unchecked below
	case mounted && (part.Kind != "btrfs" || p.subvolume() == ""):
		return fmt.Errorf("%s has partition %s, which is mounted at %s too; mount each file system once", p.where,
			part, m.shown(at))
	}
	return m.mountInside(part, p.where, p.subvolume())
}

func (m *machine) shown(at string) string { return path.Join("/", strings.TrimPrefix(at, m.folder)) }

// bound reports a bind mount of a folder that has files: the audit would have to look at
// the same files twice.
func (m *machine) bound(p place) error {
	if slices.Contains([]string{"/tmp", "/var/tmp"}, p.where) {
		return nil
	}
	h, err := host.Mounted(m.folder)
	if err != nil {
		return err
	}
	defer h.Close()
	entries, err := afero.ReadDir(h.Files, p.what)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	return fmt.Errorf("%s is a bind mount of %s, whose files were not audited at %s; make %s a link to that "+
		"folder, or leave the folder empty", p.where, p.what, p.where, p.where)
}

// mountTypes mounts partitions whose place only the type gives. The first folder that
// the root has counts.
func (m *machine) mountTypes(taken map[string]bool) {
	for _, t := range typePlaces {
		for _, p := range m.Parts {
			if _, mounted := m.at[p.Number]; mounted || p.Role != t.role || !mountable(p.Partition) ||
				m.listed[p.Number] {
				continue
			}
			i := slices.IndexFunc(t.places, func(at string) bool {
				info, err := os.Lstat(filepath.Join(m.folder, at))
				return err == nil && info.IsDir() && !taken[at]
			})
			if i < 0 {
				continue
			}
			taken[t.places[i]] = true
			if err := m.mountInside(p, t.places[i], ""); err != nil {
				m.unchecked("%w", err)
			}
		}
	}
}

// mountInside mounts a partition on a folder of the image. Links lead nowhere outside. A
// kernel without vfat is no reason to doubt an audit: an EFI system partition has boot
// loaders.
func (m *machine) mountInside(p source, at, subvolume string) error {
	h, err := host.Mounted(m.folder)
	if err != nil {
		return err
	}
	defer h.Close()
	m.listed[p.Number] = true
	real, err := h.Files.Real(at)
	if err != nil {
		return fmt.Errorf("finding the folder %s: %w", at, err)
	}
	if info, err := os.Lstat(filepath.Join(m.folder, real)); err != nil || !info.IsDir() {
		return fmt.Errorf("partition %s: the image has no folder %s to mount this partition; make the folder", p, at)
	}
	err = m.mount(p, filepath.Join(m.folder, real), subvolume)
	if lacks, ok := errors.AsType[noFileSystem](err); ok && p.Role == disk.RoleESP {
		m.note("partition %s was not audited: %v", p, lacks)
		return nil
	}
	if err != nil {
		return fmt.Errorf("mounting partition %s at %s: %w", p, at, err)
	}
	return nil
}

// notMounted records a partition that nothing mounts, if it can have files.
func (m *machine) notMounted(p source) {
	switch {
	case p.Opened:
	case p.Volume != "" && p.Elsewhere != "":
		m.unchecked("logical volume %s was not audited: %s; %s", p.Volume, p.Elsewhere, disk.VolumeRemedy)
	case slices.Contains([]string{disk.KindLVM, disk.KindLUKS, disk.KindRAID}, p.Kind):
		m.unchecked("partition %s was not audited: what is inside %s is not read; build the image without that", p,
			p.Kind)
	case !mountable(p.Partition):
	case p.Role == disk.RoleESP:
		m.note("partition %s was not audited: the image has no folder for an EFI system partition", p)
	default:
		if err := m.mount(p, m.other, ""); err != nil {
			m.unchecked("partition %s was not audited: mounting the partition: %w", p, err)
			return
		}
		entries, err := os.ReadDir(m.other)
		another := isRoot(m.other)
		if err = errors.Join(err, unmount(m.other)); err != nil {
			m.unchecked("partition %s was not audited: %w", p, err)
			return
		}
		switch {
		case another:
			m.unchecked("partition %s was not audited: the partition has another root; audit the disk again with "+
				"this root partition, or remove the partition", p)
		case slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() != "lost+found" }):
			m.unchecked("partition %s was not audited: the image does not say where this partition is mounted; "+
				"name the partition in /etc/fstab, or remove it", p)
		}
	}
}

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
	return slices.ContainsFunc(p.options, func(o string) bool { return slices.Contains(options, o) })
}

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
			fields[i] = show.Unescape(fields[i])
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

// numbered are names of partitions: the disk, and the number.
var numbered = regexp.MustCompile(`^(/dev/(?:(?:sd|vd|xvd|hd)[a-z]+|(?:nvme\d+n\d+|mmcblk\d+)p))(\d+)$`)

// links are the folders of /dev/disk, with the tag of fstab(5) that means the same.
var links = map[string]string{"by-uuid": "UUID", "by-label": "LABEL", "by-partuuid": "PARTUUID",
	"by-partlabel": "PARTLABEL"}

// isDevice reports whether fstab's first field names a block device.
func isDevice(what string) bool {
	tag, _, tagged := strings.Cut(what, "=")
	return tagged && slices.Contains(slices.Collect(maps.Values(links)), tag) || strings.HasPrefix(what, "/dev/")
}

// names reports whether fstab's first field names the partition. Names such as
// /dev/sda2 count if they begin with one of the disks.
func names(what string, p disk.Partition, disks []string) bool {
	if group, name, is := strings.Cut(p.Volume, "/"); is {
		double := strings.NewReplacer("-", "--")
		if what == "/dev/"+p.Volume || what == "/dev/mapper/"+double.Replace(group)+"-"+double.Replace(name) {
			return true
		}
	}
	tag, value, tagged := strings.Cut(what, "=")
	value = strings.Trim(value, `"'`)
	if rest, ok := strings.CutPrefix(what, "/dev/disk/"); ok {
		folder, name, _ := strings.Cut(rest, "/")
		if plain, err := strconv.Unquote(`"` + name + `"`); err == nil { // udev writes blanks as \x20
			name = plain
		}
		tag, value, tagged = links[folder], name, true
	}
	if !tagged {
		parts := numbered.FindStringSubmatch(path.Clean(what))
		if parts == nil {
			return false
		}
		n, err := strconv.Atoi(parts[2])
		return err == nil && n == p.Number && n != 0 && slices.Contains(disks, parts[1])
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
