// Package disks mounts the instance store's disks: as one array for the folders of
// the kubelet, containerd and the pods' logs, or each disk by itself for pods. Disks
// with content are never overwritten.
package disks

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/service"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

const (
	// DefaultFolder is the default folder for the mounts.
	DefaultFolder = "/mnt/k8s-disks"
	// arrayName is the array's name in its own superblock.
	arrayName = "kubernetes"

	// program sets up the instance store on Amazon's images.
	program = "setup-local-disks"

	byID   = "/dev/disk/by-id"
	marker = "NVMe_Instance_Storage_"
)

// Disks is the plan for the instance store.
type Disks struct {
	nodeconfig.LocalStorage
	// InstanceID determines the file systems' UUIDs. The UUIDs are known before the
	// file systems exist and differ on every instance.
	InstanceID string
}

// ID implements plan.Item.
func (Disks) ID() string { return "local-disks" }

// Phase implements plan.Item.
func (Disks) Phase() string { return "disks" }

// Plan implements plan.Item. Done means that all disks are mounted, now and after a
// reboot. A machine without an instance store is done.
func (d Disks) Plan(ctx context.Context, h *host.Host) (plan.Answer, error) {
	if d.Strategy == "" || d.Strategy == nodeconfig.NoDisks {
		return plan.Answer{}, nil
	}
	if h.HasCommand(program) {
		return d.delegate(h)
	}
	found, err := instanceStore(h)
	if err != nil || len(found) == 0 {
		return plan.Answer{}, err
	}
	folder := cmp.Or(d.MountPath, DefaultFolder)
	if d.Strategy == nodeconfig.Mount {
		var answer plan.Answer
		for i, disk := range found {
			if err := isUnused(h, disk); err != nil {
				return plan.Answer{}, err
			}
			more, err := d.volume(h, disk, path.Join(folder, fmt.Sprint(i+1)), i+1, true)
			if err != nil {
				return plan.Answer{}, err
			}
			answer.Act(more...)
		}
		return answer, nil
	}
	actions, err := d.array(h, found, path.Join(folder, "0"))
	return plan.Acts(actions...), err
}

// delegate returns the action that runs the image's own program for the instance
// store, with the arguments of Amazon's nodeadm, once in each boot.
func (d Disks) delegate(h *host.Host) (plan.Answer, error) {
	argv := []string{program, strings.ToLower(d.Strategy)}
	if d.MountPath != "" {
		argv = append(argv, "--dir", d.MountPath)
	}
	for _, mount := range d.DisabledMounts {
		argv = append(argv, map[string]string{
			nodeconfig.DisableContainerd: "--no-bind-containerd",
			nodeconfig.DisablePodLogs:    "--no-bind-pods-logs",
			nodeconfig.DisableSOCI:       "--no-bind-soci",
		}[mount])
	}
	action := plan.Command(h, "the image has its own program for the instance store", argv...)
	done, err := service.IsStartedWith(h, program, action.Target)
	if err != nil || done {
		return plan.Answer{}, err
	}
	return plan.Acts(service.Recorded(h, action, program, action.Target)), nil
}

// array returns the actions that create one array of all disks, mount the array at
// where and move folders to the array.
func (d Disks) array(h *host.Host, found []string, where string) ([]plan.Action, error) {
	level := "0"
	if d.Strategy == nodeconfig.RAID10 {
		if level = "10"; len(found) < 2 {
			return nil, fmt.Errorf("the instance store has one disk, and RAID10 needs two; use RAID0")
		}
	}
	device, actions, err := array(h, found, level)
	if err != nil {
		return nil, err
	}
	more, err := d.volume(h, device, where, 0, len(actions) == 0)
	if err != nil {
		return nil, err
	}
	actions = append(actions, more...)
	for _, f := range d.folders() {
		more, err := bind(h, path.Join(where, path.Base(f.path)), f)
		if err != nil {
			return nil, err
		}
		actions = append(actions, more...)
	}
	return actions, nil
}

func (d Disks) folders() []carried {
	list := []carried{{"/var/lib/kubelet", "kubelet"}}
	if !slices.Contains(d.DisabledMounts, nodeconfig.DisableContainerd) {
		list = append(list, carried{"/var/lib/containerd", "containerd"})
	}
	if !slices.Contains(d.DisabledMounts, nodeconfig.DisableSOCI) {
		list = append(list, carried{machine.SOCIFolder, string(render.SOCI)})
	}
	if !slices.Contains(d.DisabledMounts, nodeconfig.DisablePodLogs) {
		list = append(list, carried{"/var/log/pods", "kubelet"})
	}
	return list
}

// instanceStore lists the devices of the disks, each once.
func instanceStore(h *host.Host) ([]string, error) {
	entries, err := afero.ReadDir(h.Files, byID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the instance store: %w", err)
	}
	var found []string
	for _, e := range entries {
		if !strings.Contains(e.Name(), marker) {
			continue
		}
		to, err := h.Files.ReadlinkIfPossible(path.Join(byID, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("looking for the instance store: %w", err)
		}
		if !path.IsAbs(to) {
			to = path.Join(byID, to)
		}
		if !partition.MatchString(path.Base(to)) {
			found = append(found, to)
		}
	}
	slices.SortFunc(found, naturally)
	return slices.Compact(found), nil
}

// partition is the form of a partition's name, such as nvme1n1p1.
var partition = regexp.MustCompile(`n[0-9]+p[0-9]+$`)

// naturally compares device names by number: nvme2n1 comes before nvme10n1.
func naturally(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// volume returns the actions that create and mount a file system on a device. made
// says that the device exists already; otherwise earlier actions create the device.
func (d Disks) volume(h *host.Host, device, where string, number int, made bool) ([]plan.Action, error) {
	var kind content
	if made {
		var err error
		if kind, err = probe(h, device); err != nil {
			return nil, err
		}
	}
	var actions []plan.Action
	switch kind.name {
	case "":
		kind = content{name: preferred(h), uuid: d.uuid(number)}
		actions = append(actions, format(h, kind, device))
	case xfs, ext4:
	default:
		return nil, refusal(device, kind)
	}
	mount, err := mountUnit(h, unit{
		description: "Instance store of this node", what: "/dev/disk/by-uuid/" + kind.uuid, where: where,
		kind: kind.name, options: "defaults,noatime",
	}, len(actions) > 0)
	return append(actions, mount...), err
}

// format returns the action that creates a file system on an empty device. An array
// that was only assembled may already have this file system.
func format(h *host.Host, want content, device string) plan.Action {
	return after(plan.Command(h, "creates a file system on "+device, mkfs(want, device)...), func() (bool, error) {
		has, err := probe(h, device)
		if err == nil && has.name != "" && has != want {
			err = refusal(device, has)
		}
		return err == nil && has.name == "", err
	})
}

// uuid derives a UUID from the instance ID, in the form of a random UUID (RFC 9562).
func (d Disks) uuid(number int) string {
	b := sha256.Sum256(fmt.Appendf(nil, "eksnode instance store %s %d", d.InstanceID, number))
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return show.UUID(b[:])
}

type unit struct{ description, what, where, kind, options string }

// mountUnit returns the actions for a unit that mounts u now and at every boot. The
// unit starts before the services whose folders it mounts.
func mountUnit(h *host.Host, u unit, changing bool) ([]plan.Action, error) {
	name := escape(u.where) + ".mount"
	content := fmt.Sprintf(`%s
[Unit]
Description=%s
Before=containerd.service kubelet.service

[Mount]
What=%s
Where=%s
Type=%s
Options=%s

[Install]
WantedBy=multi-user.target
`, render.Mark, u.description, u.what, u.where, u.kind, u.options)
	actions, err := plan.Files(h, []plan.File{{Path: "/etc/systemd/system/" + name, Mode: 0o644,
		Content: []byte(content), Why: "mounts " + u.where}})
	if err != nil {
		return nil, err
	}
	links, err := h.Enablements(name)
	if err != nil {
		return nil, err
	}
	mounted, err := h.Files.IsMountPoint(u.where)
	if err != nil {
		return nil, fmt.Errorf("looking at %s: %w", u.where, err)
	}
	if len(actions) == 0 && len(links) > 0 && mounted && !changing {
		return nil, nil
	}
	return append(actions,
		plan.Command(h, "systemd must read the unit", "systemctl", "daemon-reload"),
		plan.Command(h, "mounts "+u.where+" at every boot", "systemctl", "enable", name),
		plan.Command(h, "mounts "+u.where+" now", "systemctl", "start", name), // enable --now came with systemd 220
	), nil
}

// escape returns a path in the form of a unit name (systemd-escape --path).
func escape(name string) string {
	var b strings.Builder
	trimmed := strings.Trim(path.Clean(name), "/")
	for i := range len(trimmed) {
		c := trimmed[i]
		switch {
		case c == '/':
			b.WriteByte('-')
		case c == '.' && i > 0, c == '_', c == ':', '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}
