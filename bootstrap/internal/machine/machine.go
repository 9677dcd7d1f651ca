// Package machine gathers the facts about the machine that a node's configuration
// depends on: program versions and features of the kernel and the image.
package machine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/containerd"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Facts holds the facts about the machine.
type Facts struct {
	Kubelet    Version `json:"kubelet"`
	Containerd Version `json:"containerd"`
	// CPUs is the number of CPUs that the kubelet sees.
	CPUs int `json:"cpus"`
	// MemoryMiB is the machine's memory, in MiB.
	MemoryMiB int `json:"memoryMiB"`
	// CgroupV1 says that the machine uses cgroup v1.
	CgroupV1 bool `json:"cgroupV1,omitempty"`
	// FIPS says that the kernel runs in FIPS mode.
	FIPS bool `json:"fips,omitempty"`
	// ResolvedStub says that /etc/resolv.conf names systemd-resolved's stub,
	// which pods cannot reach.
	ResolvedStub bool `json:"resolvedStub,omitempty"`
	// NVIDIA says that an NVIDIA device is plugged in.
	NVIDIA bool `json:"nvidia,omitempty"`
	// Warnings are what pods will lack: GPUs that no driver serves.
	Warnings []string `json:"warnings,omitempty"`
	// Runc is the path of runc. Empty means that containerd searches for runc.
	Runc string `json:"runc,omitempty"`
	// NVIDIARuntime says that the image has NVIDIA's container runtime.
	NVIDIARuntime bool `json:"nvidiaRuntime,omitempty"`
	// SOCI says that the image has the SOCI snapshotter.
	SOCI bool `json:"soci,omitempty"`
	// CredentialProvider says that the image has ecr-credential-provider where
	// the kubelet looks for it.
	CredentialProvider bool `json:"credentialProvider,omitempty"`
	// HasPause says that the image has containerd.PauseArchive.
	HasPause bool `json:"hasPause,omitempty"`
	// Command is the path of eksnode itself, which the kubeconfig names.
	Command string `json:"command"`
}

// The paths and names from which the facts are gathered.
const (
	// CredentialProviderFolder is the kubelet's folder of credential providers.
	CredentialProviderFolder = "/etc/eks/image-credential-provider"
	// CredentialProviderName is the provider's name and its program's.
	CredentialProviderName = "ecr-credential-provider"
	// NVIDIARuntime is NVIDIA's container runtime.
	NVIDIARuntime = "/usr/bin/nvidia-container-runtime"
	// SOCIUnit is the unit of the SOCI snapshotter.
	SOCIUnit = "soci-snapshotter.service"
	// SOCIFolder is the SOCI snapshotter's folder of images.
	SOCIFolder = "/var/lib/soci-snapshotter-grpc"

	// OnlineCPUs is the kernel's list of processors. The kubelet counts these, also where
	// systemd's CPUAffinity keeps programs off some of them.
	OnlineCPUs = "/sys/devices/system/cpu/online"

	resolvConf     = "/etc/resolv.conf"
	cgroupV2       = "/sys/fs/cgroup/cgroup.controllers"
	fipsEnabled    = "/proc/sys/crypto/fips_enabled"
	memory         = "/proc/meminfo"
	pciDevices     = "/sys/bus/pci/devices"
	nvidiaPCIID    = "0x10de"
	displays       = "0x03"
	stubAddress    = "127.0.0.53"
	stubResolvConf = "/run/systemd/resolve/stub-resolv.conf"
)

// Gather returns the facts about the machine. command is the path of eksnode itself.
func Gather(ctx context.Context, h *host.Host, command string) (Facts, error) {
	f := Facts{Command: command}
	m, err := manifest.Load(h)
	if err != nil {
		return f, err
	}
	var errs [8]error
	f.Kubelet, errs[0] = programVersion(ctx, h, m, "kubelet")
	f.Containerd, errs[1] = programVersion(ctx, h, m, "containerd")
	f.MemoryMiB, errs[2] = memoryMiB(h)
	f.CPUs, errs[3] = processors(h)
	f.FIPS, errs[4] = fips(h)
	f.ResolvedStub, errs[5] = resolvedStub(h)
	f.NVIDIA, f.Warnings, errs[6] = nvidia(h)
	f.Runc, errs[7] = runc(h)
	if err := errors.Join(errs[:]...); err != nil {
		return f, err
	}
	for _, look := range []struct {
		name    string
		found   *bool
		missing bool
	}{
		{cgroupV2, &f.CgroupV1, true},
		{NVIDIARuntime, &f.NVIDIARuntime, false},
		{containerd.PauseArchive, &f.HasPause, false},
		{path.Join(CredentialProviderFolder, CredentialProviderName), &f.CredentialProvider, false},
	} {
		there, err := h.Exists(look.name)
		if err != nil {
			return f, fmt.Errorf("gathering facts about the machine: %w", err)
		}
		*look.found = there != look.missing
	}
	f.SOCI, err = h.HasUnit(SOCIUnit)
	return f, err
}

// runc returns the path of runc in the folders of distributions and of upstream's
// releases, or nothing.
func runc(h *host.Host) (string, error) {
	for _, folder := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"} {
		name := path.Join(folder, "runc")
		there, err := h.Exists(name)
		if err != nil {
			return "", fmt.Errorf("looking for runc: %w", err)
		}
		if there {
			return name, nil
		}
	}
	return "", nil
}

// programVersion returns a program's version from the image's manifest if the
// program still has its installed size. Otherwise it runs the program, which is slow
// on a cold disk: on Amazon Linux 2023 this took 16 of 21 seconds
// (amazon-eks-ami #1751).
func programVersion(ctx context.Context, h *host.Host, m *manifest.Manifest, name string) (Version, error) {
	if a, ok := m.Asset(name); ok && a.Version != "" && installed(h, a, name) {
		return ParseVersion(a.Version)
	}
	out, err := h.Run(ctx, host.Command{Argv: []string{name, "--version"}})
	if err != nil {
		return Version{}, fmt.Errorf("finding the version of %s: %w; install the program on the search path of the "+
			"image", name, err)
	}
	v, err := ParseVersion(string(out))
	if err != nil {
		return Version{}, fmt.Errorf("finding the version of %s: %w", name, err)
	}
	return v, nil
}

func installed(h *host.Host, a manifest.Asset, name string) bool {
	for _, f := range a.Files {
		if path.Base(f.Path) == name && f.Link == "" {
			st, err := h.Files.Stat(f.Path)
			return err == nil && st.Size() == f.Size
		}
	}
	return false
}

func memoryMiB(h *host.Host) (int, error) {
	text, err := h.Content(memory)
	if err != nil {
		return 0, fmt.Errorf("reading the machine's memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		var kib int
		if _, err := fmt.Sscanf(line, "MemTotal: %d kB", &kib); err == nil {
			return kib >> 10, nil
		}
	}
	return 0, nil // an image root has no /proc/meminfo
}

func processors(h *host.Host) (int, error) {
	online, err := h.Content(OnlineCPUs)
	if err != nil {
		return 0, fmt.Errorf("reading the machine's processors: %w", err)
	}
	return len(CPUSet(string(online))), nil
}

// CPUSet returns the processors in a list such as "0-3,8".
func CPUSet(list string) map[int]bool {
	set := map[int]bool{}
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		for n := from; err == nil && err2 == nil && n <= to && n < 1<<16; n++ {
			set[n] = true
		}
	}
	return set
}

func fips(h *host.Host) (bool, error) {
	text, err := h.Content(fipsEnabled)
	if err != nil {
		return false, fmt.Errorf("reading whether the kernel runs in FIPS mode: %w", err)
	}
	return string(bytes.TrimSpace(text)) == "1", nil
}

// resolvedStub reports whether /etc/resolv.conf names systemd-resolved's stub, by the
// stub's address or by a link to its file. At boot that file may not exist yet.
func resolvedStub(h *host.Host) (bool, error) {
	if to, err := h.Files.ReadlinkIfPossible(resolvConf); err == nil {
		if !path.IsAbs(to) {
			to = path.Join(path.Dir(resolvConf), to)
		}
		return path.Clean(to) == stubResolvConf, nil
	}
	text, err := h.Content(resolvConf)
	if err != nil {
		return false, fmt.Errorf("reading /etc/resolv.conf: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "nameserver" && fields[1] == stubAddress {
			return true, nil
		}
	}
	return false, nil
}

// nvidia says whether there is a device of NVIDIA, and warns of GPUs that no driver serves.
// Other devices, such as switches, have another class than displays.
func nvidia(h *host.Host) (has bool, warnings []string, err error) {
	devices, err := afero.ReadDir(h.Files, pciDevices)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil, nil
	}
	var idle []string
	for _, d := range devices {
		var facts [3]string
		for i, name := range []string{"vendor", "class", "device"} {
			text, e := h.Content(path.Join(pciDevices, d.Name(), name))
			facts[i], err = string(bytes.TrimSpace(text)), errors.Join(err, e)
		}
		if facts[0] != nvidiaPCIID {
			continue
		}
		has = true
		driven, e := h.Exists(path.Join(pciDevices, d.Name(), "driver"))
		err = errors.Join(err, e)
		if !driven && strings.HasPrefix(facts[1], displays) {
			idle = append(idle, fmt.Sprintf("%s (%s)", d.Name(), facts[2]))
		}
	}
	version, e := h.Content("/sys/module/nvidia/version")
	if err = errors.Join(err, e); err != nil {
		return false, nil, fmt.Errorf("listing the machine's devices: %w", err)
	}
	if len(idle) > 0 {
		state := "the module nvidia is not loaded"
		if version != nil {
			state = "the module nvidia has the version " + string(bytes.TrimSpace(version))
		}
		warnings = []string{fmt.Sprintf("pods cannot use the GPU %s: no driver serves it, %s; "+
			"use an image with a driver for this instance type", strings.Join(idle, ", "), state)}
	}
	return has, warnings, nil
}

// container exists in every container whose init is systemd
// (https://systemd.io/CONTAINER_INTERFACE). The firmware's data then describes the
// container's host.
const container = "/run/systemd/container"

// mark is a file whose content identifies an EC2 instance.
type mark struct {
	file string
	is   func(text string) bool
}

// marks returns the marks of Nitro and bare metal, then those of Xen. Sources:
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/identify_ec2_instances.html
// and cloud-init's ds-identify.
func marks() []mark {
	const dmi = "/sys/class/dmi/id/"
	amazon := func(text string) bool { return text == "Amazon EC2" }
	uuid := func(text string) bool { return strings.HasPrefix(strings.ToLower(text), "ec2") }
	return []mark{
		{dmi + "sys_vendor", amazon},
		{dmi + "board_vendor", amazon},
		{dmi + "bios_vendor", amazon},
		{"/sys/hypervisor/uuid", uuid},
		{dmi + "product_uuid", uuid},
		{dmi + "bios_version", func(text string) bool { return strings.HasSuffix(text, ".amazon") }},
	}
}

// IsEC2 reports whether the machine is an EC2 instance, and the evidence. It sends no
// request. The caller then knows whether to wait for a slow metadata service.
func IsEC2(h *host.Host) (is bool, why string, err error) {
	if there, err := h.Exists(container); err != nil {
		return false, "", fmt.Errorf("finding out whether this machine is an EC2 instance: %w", err)
	} else if there {
		return false, "this is a container", nil
	}
	vendor := ""
	for _, m := range marks() {
		content, err := h.Content(m.file)
		if err != nil {
			return false, "", fmt.Errorf("finding out whether this machine is an EC2 instance: %w", err)
		}
		text := strings.TrimSpace(string(content))
		if m.is(text) {
			return true, fmt.Sprintf("%s is %q", m.file, text), nil
		}
		if path.Base(m.file) == "sys_vendor" {
			vendor = text
		}
	}
	if vendor == "" {
		return false, "the machine's firmware names no vendor", nil
	}
	return false, fmt.Sprintf("the machine's vendor is %q", vendor), nil
}

// Version is a program's release. Zero is unknown.
type Version struct {
	Major int `json:"major"`
	Minor int `json:"minor"`
	Patch int `json:"patch"`
}

var release = show.Regexp(`\bv?(\d+)\.(\d+)(?:\.(\d+))?`)

// ParseVersion finds the first release number in a text such as
// "Kubernetes v1.36.3-eks-1a2b3c4" or "containerd github.com/containerd/containerd/v2 v2.1.0".
func ParseVersion(text string) (Version, error) {
	m := release().FindStringSubmatch(text)
	if m == nil {
		return Version{}, fmt.Errorf("there is no version in %q", text)
	}
	var n [3]int
	for i, s := range m[1:] {
		var err error
		if n[i], err = strconv.Atoi(cmp.Or(s, "0")); err != nil {
			return Version{}, fmt.Errorf("there is no version in %q", text)
		}
	}
	return Version{n[0], n[1], n[2]}, nil
}

// Less reports whether v is older than the release major.minor.
func (v Version) Less(major, minor int) bool {
	return v.Major < major || v.Major == major && v.Minor < minor
}

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }
