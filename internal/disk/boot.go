package disk

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Boot is how a disk boots on EC2.
type Boot struct {
	// BIOS is set if the first sector has a boot loader.
	BIOS bool
	// UEFI is set if a FAT file system has a loader where firmware without
	// boot variables searches: \EFI\BOOT\BOOTX64.EFI or BOOTAA64.EFI.
	UEFI bool
	// Arch is the architecture of the UEFI loader as EC2 names it, "x86_64" or
	// "arm64", or "" if only the root file system shows it.
	Arch string
}

// Mode is EC2's name of the boot mode: "legacy-bios", "uefi", "uefi-preferred"
// for both, or "" if the disk has no boot loader.
func (b Boot) Mode() string {
	switch {
	case b.BIOS && b.UEFI:
		return "uefi-preferred"
	case b.UEFI:
		return "uefi"
	case b.BIOS:
		return "legacy-bios"
	default:
		return ""
	}
}

// loaders are the names of loaders in \EFI\BOOT as folder entries, with EC2's
// name of the architecture and the number in the loader's PE header.
var loaders = []struct {
	entry, file, arch string
	machine           uint16
}{
	{"BOOTX64 EFI", `\EFI\BOOT\BOOTX64.EFI`, "x86_64", 0x8664},
	{"BOOTAA64EFI", `\EFI\BOOT\BOOTAA64.EFI`, "arm64", 0xaa64},
}

func (l *Layout) findBoot(r io.ReaderAt) {
	esp := 0
	for _, p := range l.Partitions {
		if p.Role == RoleESP {
			esp = p.Number
		}
		if p.Kind == KindVFAT {
			l.findLoaders(p.in(r), p.Number)
		}
	}
	if esp != 0 && !l.Boot.UEFI {
		l.note(`the EFI system partition %d has no \EFI\BOOT\BOOTX64.EFI or BOOTAA64.EFI; EC2 starts without boot `+
			`variables, so UEFI does not boot this disk`, esp)
	}
	// arm64 has no BIOS.
	if l.Boot.Arch != "arm64" {
		l.findBIOS(r)
	}
}

func (l *Layout) findLoaders(r io.ReaderAt, number int) {
	f, err := openFAT(r)
	if err != nil {
		return
	}
	for _, loader := range loaders {
		head, err := f.head(4096, "EFI        ", "BOOT       ", loader.entry)
		switch machine, ok := machineOf(head); {
		case err != nil:
			l.note("partition %d: reading %s: %v", number, loader.file, err)
		case head == nil:
		case !ok || machine != loader.machine:
			l.note("partition %d: %s is no program for %s", number, loader.file, loader.arch)
		case l.Boot.UEFI && l.Boot.Arch != loader.arch:
			l.note("the disk has loaders for two architectures")
			l.Boot.Arch = ""
		default:
			l.Boot.UEFI, l.Boot.Arch = true, loader.arch
		}
	}
}

// machineOf is the architecture in a PE header.
func machineOf(head []byte) (uint16, bool) {
	if len(head) < 64 || string(head[:2]) != "MZ" {
		return 0, false
	}
	at := int64(binary.LittleEndian.Uint32(head[60:]))
	if at+6 > int64(len(head)) || string(head[at:at+4]) != "PE\x00\x00" {
		return 0, false
	}
	return binary.LittleEndian.Uint16(head[at+4:]), true
}

// signs are texts in the boot code of known loaders: GRUB, the MBRs of syslinux
// for MBR and GPT, LILO, and Limine.
var signs = []string{"GRUB", "Missing operating system.\r\n", "Missing OS\r\n", "LILO", "Limine"}

// partedStub is how the boot code begins that parted writes into every new MBR. It
// starts the active partition.
const partedStub = "\xfa\xb8\x00\x10\x8e\xd0\xbc\x00\xb0"

// findBIOS reads the boot code in the first sector.
func (l *Layout) findBIOS(r io.ReaderAt) {
	code, err := bytesAt(r, 0, mbrSector)
	if err != nil || code[510] != 0x55 || code[511] != 0xaa || allZero(code[:440]) || l.wholeFAT() {
		return
	}
	for _, sign := range signs {
		if bytes.Contains(code[:440], []byte(sign)) {
			l.Boot.BIOS = true
			return
		}
	}
	// Other code counts if there is something to start, and no UEFI.
	if !l.Boot.UEFI && (!bytes.HasPrefix(code, []byte(partedStub)) || l.active(r)) {
		l.Boot.BIOS = true
	}
}

// wholeFAT reports whether the first sector is that of a FAT file system, which
// always has code.
func (l *Layout) wholeFAT() bool { return l.Table == "" && l.Partitions[0].Kind == KindVFAT }

// active reports whether a partition is marked as active and begins with boot
// code.
func (l *Layout) active(r io.ReaderAt) bool {
	entries, _ := bootRecord(r, 0)
	for _, e := range entries {
		if first, err := bytesAt(r, e.Offset, mbrSector); e.active && err == nil && first[510] == 0x55 &&
			first[511] == 0xaa && !allZero(first[:440]) {
			return true
		}
	}
	return false
}

func (l *Layout) note(format string, args ...any) {
	l.Notes = append(l.Notes, fmt.Sprintf(format, args...))
}

// SeveralRoots is the error about partitions that can all be the root.
func SeveralRoots(list []Partition) error {
	return fmt.Errorf("several partitions can be the root: %s; give the number of the root partition", described(list))
}

// Roots returns the partitions that can be the root: by the type of the Discoverable
// Partitions Specification, by the label, or as Linux file systems. A number other than 0
// selects that partition. The error says why there is none.
func (l *Layout) Roots(number int) ([]Partition, error) {
	if number != 0 {
		p, err := l.chosen(number)
		return []Partition{p}, err
	}
	candidates := l.candidates()
	for _, better := range []func(Partition) bool{
		func(p Partition) bool { return p.Role == RoleRoot },
		func(p Partition) bool { return isRootName(p.Label) },
		func(p Partition) bool { return isRootName(p.Name) },
		func(p Partition) bool { return isRootName(p.volume()) || strings.HasPrefix(p.volume(), "root") },
	} {
		if len(candidates) < 2 {
			break
		}
		if slices.ContainsFunc(candidates, better) {
			candidates = slices.DeleteFunc(candidates, func(p Partition) bool { return !better(p) })
		}
	}
	if len(candidates) == 0 {
		return nil, l.noRoot()
	}
	return candidates, nil
}

func (l *Layout) chosen(number int) (Partition, error) {
	all := l.All()
	i := slices.IndexFunc(all, func(p Partition) bool { return p.Number == number })
	if i < 0 {
		return Partition{}, fmt.Errorf("the disk has no partition %d, but %s", number, described(all))
	}
	p := all[i]
	if p.Volume != "" && p.Elsewhere != "" {
		return p, fmt.Errorf("the logical volume %s is not read: %s; %s", p.Volume, p.Elsewhere, VolumeRemedy)
	}
	if !isLinux(p.Kind) {
		return Partition{}, fmt.Errorf("partition %s is no Linux file system%s", described([]Partition{p}),
			inside(p.Kind))
	}
	return p, nil
}

// candidates are the Linux file systems that are not there for something else.
func (l *Layout) candidates() []Partition {
	var all []Partition
	for _, p := range l.All() {
		other := p.Role != "" && p.Role != RoleRoot
		if isLinux(p.Kind) && !other && (l.Table == "" || !isOtherName(p.Label)) && !isOtherName(p.volume()) {
			all = append(all, p)
		}
	}
	return all
}

// noRoot says why no partition is a candidate.
func (l *Layout) noRoot() error {
	for _, p := range l.Volumes {
		if p.Elsewhere != "" {
			return fmt.Errorf("no root file system found: the logical volume %s may have it, but %s; %s", p.Volume,
				p.Elsewhere, VolumeRemedy)
		}
	}
	for _, kind := range []string{KindLVM, KindLUKS, KindRAID} {
		for _, p := range l.Partitions {
			if p.Kind == kind {
				return fmt.Errorf("no root file system found: partition %s may have it%s", described([]Partition{p}),
					inside(kind))
			}
		}
	}
	if l.Table == "" {
		return fmt.Errorf("no root file system found: the disk has no partition table and no Linux file system (%s)",
			described(l.Partitions))
	}
	return fmt.Errorf("no root file system found among the partitions: %s", described(l.Partitions))
}

// VolumeRemedy says what to do with a logical volume that is not read.
const VolumeRemedy = "use linear volumes on one disk, or mount the root read-only and run eksnode audit --root"

// volume is the name of a logical volume in its group, or "".
func (p Partition) volume() string {
	_, name, _ := strings.Cut(p.Volume, "/")
	return name
}

// inside says what to do with a root in a container.
func inside(kind string) string {
	if slices.Contains([]string{KindLVM, KindLUKS, KindRAID}, kind) {
		return fmt.Sprintf(", but a file system inside %s is not read; build the image without that, or mount its "+
			"root read-only and run eksnode audit --root", kind)
	}
	return ""
}

// isRootName reports whether a label or name is one that distributions give to
// the root: Debian and Fedora, Amazon Linux, Ubuntu, SUSE, Flatcar.
func isRootName(name string) bool {
	known := []string{"root", "rootfs", "/", "cloudimg-rootfs", "slash", "linux-root", "p.lxroot"}
	return slices.Contains(known, strings.ToLower(name))
}

// isOtherName reports whether a label is that of a file system beside the root.
func isOtherName(name string) bool {
	known := []string{"boot", "home", "var", "tmp", "usr", "srv", "opt", "log", "data", "oem", "usr-a", "usr-b", "efi"}
	return slices.Contains(known, strings.ToLower(strings.TrimPrefix(name, "/")))
}

// described lists partitions with number, file system, size and label.
func described(list []Partition) string {
	return strings.Join(show.Each(list, Partition.String), ", ")
}

// String describes a partition: 1 (ext4, 8.6 GB, label "root").
func (p Partition) String() string {
	label := ""
	if p.Volume != "" {
		label = ", logical volume " + p.Volume
	} else if name := p.Label; name != "" {
		label = fmt.Sprintf(", label %q", name)
	} else if p.Name != "" {
		label = fmt.Sprintf(", name %q", p.Name)
	}
	text := fmt.Sprintf("%s, %s%s", cmp.Or(p.Kind, "unknown content"), show.Size(p.Length), label)
	if p.Number != 0 {
		text = fmt.Sprintf("%d (%s)", p.Number, text)
	}
	return text
}
