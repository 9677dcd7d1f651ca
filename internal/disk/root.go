package disk

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/show"
)

// Root returns the root partition. Number 0 finds it: by the type of the
// Discoverable Partitions Specification, by the label, or as the only Linux file
// system. Any other number selects that partition. The error says why there is
// none, or lists the candidates.
func (l *Layout) Root(number int) (Partition, error) {
	roots, err := l.Roots(number)
	if err != nil {
		return Partition{}, err
	}
	if len(roots) > 1 {
		return Partition{}, SeveralRoots(roots)
	}
	return roots[0], nil
}

// SeveralRoots is the error about partitions that can all be the root.
func SeveralRoots(list []Partition) error {
	return fmt.Errorf("several partitions can be the root: %s; give the number of the root partition", described(list))
}

// Roots returns the partitions that can be the root, as Root finds them. There is at
// least one.
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
	} {
		if len(candidates) < 2 {
			break
		}
		var chosen []Partition
		for _, p := range candidates {
			if better(p) {
				chosen = append(chosen, p)
			}
		}
		if len(chosen) > 0 {
			candidates = chosen
		}
	}
	if len(candidates) == 0 {
		return nil, l.noRoot()
	}
	return candidates, nil
}

// chosen returns the partition with a number, if it can be the root.
func (l *Layout) chosen(number int) (Partition, error) {
	i := slices.IndexFunc(l.Partitions, func(p Partition) bool { return p.Number == number })
	if i < 0 {
		return Partition{}, fmt.Errorf("the disk has no partition %d, but %s", number, described(l.Partitions))
	}
	p := l.Partitions[i]
	if !isLinux(p.Kind) {
		return Partition{}, fmt.Errorf("partition %s is no Linux file system%s", described([]Partition{p}), inside(p.Kind))
	}
	return p, nil
}

// candidates are the Linux file systems that are not there for something else.
func (l *Layout) candidates() []Partition {
	var all []Partition
	for _, p := range l.Partitions {
		other := p.Role != "" && p.Role != RoleRoot
		if isLinux(p.Kind) && !other && (l.Table == "" || !isOtherName(p.Label)) {
			all = append(all, p)
		}
	}
	return all
}

// noRoot says why no partition is a candidate.
func (l *Layout) noRoot() error {
	for _, kind := range []string{KindLVM, KindLUKS, KindRAID} {
		for _, p := range l.Partitions {
			if p.Kind == kind {
				return fmt.Errorf("no root file system found: partition %s may have it%s", described([]Partition{p}), inside(kind))
			}
		}
	}
	if l.Table == "" {
		return fmt.Errorf("no root file system found: the disk has no partition table and no Linux file system (%s)", described(l.Partitions))
	}
	return fmt.Errorf("no root file system found among the partitions: %s", described(l.Partitions))
}

// inside says what to do with a root in a container.
func inside(kind string) string {
	switch kind {
	case KindLVM, KindLUKS, KindRAID:
		return fmt.Sprintf(", but a file system inside %s is not read; build the image without that, or mount its root read-only and run eksnode audit --root", kind)
	}
	return ""
}

// isRootName reports whether a label or name is one that distributions give to
// the root: Debian and Fedora, Amazon Linux, Ubuntu, SUSE, Flatcar.
func isRootName(name string) bool {
	switch strings.ToLower(name) {
	case "root", "rootfs", "/", "cloudimg-rootfs", "slash", "linux-root", "p.lxroot":
		return true
	}
	return false
}

// isOtherName reports whether a label is that of a file system beside the root.
func isOtherName(name string) bool {
	switch strings.ToLower(strings.TrimPrefix(name, "/")) {
	case "boot", "home", "var", "tmp", "usr", "srv", "opt", "log", "data", "oem", "usr-a", "usr-b", "efi":
		return true
	}
	return false
}

// described lists partitions with number, file system, size and label.
func described(list []Partition) string {
	var all []string
	for _, p := range list {
		all = append(all, p.String())
	}
	return strings.Join(all, ", ")
}

// String describes a partition: 1 (ext4, 8.6 GB, label "root").
func (p Partition) String() string {
	kind := p.Kind
	if kind == "" {
		kind = "unknown content"
	}
	label := ""
	if name := p.Label; name != "" {
		label = fmt.Sprintf(", label %q", name)
	} else if p.Name != "" {
		label = fmt.Sprintf(", name %q", p.Name)
	}
	text := fmt.Sprintf("%s, %s%s", kind, show.Size(p.Length), label)
	if p.Number != 0 {
		text = fmt.Sprintf("%d (%s)", p.Number, text)
	}
	return text
}
