package provisioner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// facts are the data that the step requirements reads from a live machine.
type facts struct {
	offline bool // systemd did not start the machine
	systemd bool // systemd starts the machine
	proc    bool // /proc is mounted
	uid     int
	arch    string // of this program, and therefore of the machine
	fips    bool   // the kernel runs in FIPS mode
	// noResolver says that the service of dns_servers is missing.
	noResolver bool
	// replaced are the versions of the installed packages that archives shall
	// replace.
	replaced map[string]string
	places   []place
}

// place is a folder that provisioning writes to.
type place struct {
	path  string
	needs uint64 // bytes
	host.Space
}

// Bytes that a first provision writes, rounded up: programs, the unpacked CNI
// plugins, and packages with their downloads.
const (
	needsPrograms = 270_000_000
	needsPackages = 270_000_000
	needsPlugins  = 170_000_000
)

// requirements runs first and changes nothing. It stops a provision that cannot
// succeed before it begins. An image root, which can only be planned, passes if it has no
// first program, or systemd.
func (n *node) requirements(ctx context.Context, h *host.Host) ([]plan.Action, error) {
	if !h.IsLive() {
		there, err := h.Exists("/sbin/init")
		if err != nil || !there {
			return nil, err
		}
		systemd, err := leadsToSystemd(h)
		if err != nil {
			return nil, err
		}
		return nil, n.judge(facts{systemd: systemd, proc: true, arch: n.arch})
	}
	f, err := n.ask(ctx, h)
	if err != nil {
		return nil, err
	}
	return nil, n.judge(f)
}

func (n *node) ask(ctx context.Context, h *host.Host) (facts, error) {
	f := facts{offline: h.Offline(), systemd: h.HasSystemd(), uid: os.Geteuid(), arch: h.Arch()}
	var err error
	if f.offline {
		if f.systemd, err = leadsToSystemd(h); err != nil {
			return f, err
		}
	}
	if f.proc, err = h.Exists("/proc/self"); err != nil {
		return f, fmt.Errorf("looking for /proc: %w", err)
	}
	fips, err := h.Content("/proc/sys/crypto/fips_enabled")
	if err != nil {
		return f, fmt.Errorf("reading the FIPS mode: %w", err)
	}
	f.fips = strings.TrimSpace(string(fips)) == "1"
	if len(n.spec.DNSServers) > 0 {
		has, err := h.HasUnit(n.distro.Network.DNS.Unit)
		if f.noResolver = !has; err != nil {
			return f, err
		}
	}
	if len(n.replaced) > 0 { // rpm refuses an empty list
		if f.replaced, err = n.distro.PackageManager.Installed(ctx, h, n.replaced); err != nil {
			return f, err
		}
	}
	f.places = []place{
		{path: n.distro.CommandFolder, needs: needsPrograms}, {path: "/opt", needs: needsPlugins},
		{path: "/var", needs: needsPackages}, {path: n.distro.UnitFolder}, {path: "/etc"},
	}
	// A provisioned machine already has the files that take the space.
	if m, err := manifest.Load(h); err == nil && m != nil {
		for i := range f.places {
			f.places[i].needs = 0
		}
	}
	for i, p := range f.places {
		if f.places[i].Space, err = h.Files.Space(p.path); err != nil {
			return f, fmt.Errorf("reading the free space: %w", err)
		}
	}
	return f, nil
}

// leadsToSystemd says whether a system that does not run starts with systemd.
func leadsToSystemd(h *host.Host) (bool, error) {
	init, err := h.Files.Real("/sbin/init")
	if err != nil {
		return false, fmt.Errorf("reading the first program of the machine: %w", err)
	}
	return path.Base(init) == "systemd", nil
}

// judge returns every reason against provisioning.
func (n *node) judge(f facts) error {
	var p problems
	if !f.systemd {
		p.add("this machine does not start with systemd (/sbin/init is missing or another program), " +
			"but the kubelet needs systemd; choose a base image with systemd, or install it " +
			"(on Debian the package systemd-sysv)")
	}
	if !f.proc {
		p.add("/proc is not mounted, but the programs of packages need it; run mount -t proc proc /proc first")
	}
	if f.offline && len(n.containers) > 0 {
		p.add("{images} and {pause_image} need a running containerd, which an offline root does not have; " +
			"leave them out, or provision a booted machine")
	}
	if f.offline && n.spec.FIPS != "" {
		p.add("{fips} needs a running kernel in FIPS mode, which an offline root does not have; " +
			"provision a booted machine")
	}
	if f.uid != 0 {
		p.add("eksnode runs as user %d, but only root can provision; %s", f.uid,
			surface.Words{HCL: "let the communicator's user use sudo without a password", Flags: "run eksnode as root"})
	}
	if f.arch != n.arch {
		p.add("this machine is %s, but the image is for %s; "+
			"choose a base image and an instance type of that architecture", f.arch, n.arch)
	}
	if n.spec.FIPS == fipsCheck && !f.fips && !f.offline {
		p.add("this machine does not run in FIPS mode, but {fips} is set; %s", n.distro.FIPS.Enable)
	}
	if f.noResolver {
		p.add("{dns_servers} has no effect: this machine has no %s; choose a base image with it",
			n.distro.Network.DNS.Unit)
	}
	// Both have a unit of the same name, and both may be in use.
	if version := f.replaced["containerd"]; version != "" {
		p.add("the package containerd %s is installed, but %s takes containerd from upstream's archive; "+
			"remove the package, or choose a base image without it", version, n.spec.archivesBy())
	}
	for _, place := range f.places {
		switch {
		case place.ReadOnly:
			p.add("%s is on a read-only file system; "+
				"remount it for writing, or choose a base image whose root can be written", place.path)
		case place.FreeBytes < place.needs:
			p.add("%s has %s free and needs %s; give the machine a larger disk", place.path,
				show.Size(int64(place.FreeBytes)), show.Size(int64(place.needs)))
		}
	}
	return errors.Join(p...)
}
