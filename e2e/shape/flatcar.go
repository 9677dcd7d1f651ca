package shape

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

// Flatcar is a machine of Flatcar Container Linux's shape: no package manager, a
// read-only /usr, containerd in a system extension whose drop-in of
// multi-user.target holds it up, services of updates, Ignition's files.
//
// cloud-init replaces Ignition and the agent for login keys. The extension is a
// folder instead of a squashfs, because machines of tests have no loop devices. The
// folder is outside of /usr: no layer of an overlay may be inside of another.
func Flatcar() Shape {
	return Shape{
		ID:    "flatcar",
		Suite: "trixie",
		Packages: []string{
			"systemd-resolved", "systemd-timesyncd", "conntrack", "ethtool", "ipset", "iptables", "nftables", "socat", "nfs-common",
		},
		Offered: []string{"containerd", "runc"},
		OSRelease: `NAME="Flatcar Container Linux by Kinvolk"
ID=flatcar
ID_LIKE=coreos
VERSION=4459.2.0
VERSION_ID=4459.2.0
BUILD_ID=2025-11-05-0000
SYSEXT_LEVEL=1.0
PRETTY_NAME="Flatcar Container Linux by Kinvolk 4459.2.0 (Oklo)"
ANSI_COLOR="38;5;75"
HOME_URL="https://flatcar.org/"
BUG_REPORT_URL="https://issues.flatcar.org"
FLATCAR_BOARD="amd64-usr"
CPE_NAME="cpe:2.3:o:flatcar-linux:flatcar_linux:4459.2.0:*:*:*:*:*:*:*"
`,
		User:    "core",
		Units:   map[string]string{"ssh.service": "sshd.service"},
		Enabled: []string{"sshd.service", "systemd-networkd.service", "systemd-resolved.service", "systemd-timesyncd.service", "systemd-sysext.service"},
		Files: []base.File{
			{Path: "/usr/lib/systemd/network/zz-default.network", Content: "[Network]\nDHCP=yes\n\n[Match]\nName=en* eth*\n", Mode: 0o644},
			{Path: "/usr/lib/systemd/networkd.conf.d/10-disable-route-mgmt.conf", Content: "[Network]\nManageForeignRoutingPolicyRules=no\nManageForeignRoutes=no\n", Mode: 0o644},
			{Path: "/usr/lib/systemd/system/ensure-sysext.service", Content: ensureSysext, Mode: 0o644},
			{Path: "/usr/lib/systemd/system/update-engine.service", Content: "[Unit]\nDescription=Update Engine\n\n[Service]\nExecStart=/usr/bin/sleep infinity\n\n[Install]\nWantedBy=multi-user.target\n", Mode: 0o644},
			{Path: "/usr/lib/systemd/system/locksmithd.service", Content: "[Unit]\nDescription=Cluster reboot manager\nRequires=update-engine.service\nAfter=update-engine.service\n\n[Service]\nExecStart=/usr/bin/sleep infinity\n\n[Install]\nWantedBy=multi-user.target\n", Mode: 0o644},
			{Path: "/etc/systemd/system/sshd.service.d/keys.conf", Content: "[Service]\nExecStartPre=/usr/bin/ssh-keygen -A\n", Mode: 0o644},
			{Path: "/etc/sudoers.d/path", Content: "Defaults secure_path=/opt/bin:/usr/sbin:/usr/bin:/sbin:/bin\n", Mode: 0o440},
			{Path: "/etc/.ignition-result.json", Content: "{\"provisioningBootID\":\"4cba5b7e-2e31-4b4a-94a0-0d1b4d5a2f6c\",\"provisioningDate\":\"2025-11-06T00:00:00Z\",\"userConfigProvided\":false}\n", Mode: 0o644},
			{Path: "/usr/share/oem/.keep", Mode: 0o644},
			{Path: "/oem/grub.cfg", Content: "set oem_id=\"ami\"\n", Mode: 0o644},
			{Path: "/oem/oem-release", Content: "ID=ami\nVERSION_ID=4459.2.0\nNAME=\"Amazon EC2\"\n", Mode: 0o644},
		},
		Links: map[string]string{
			"/etc/resolv.conf":                                                   "../run/systemd/resolve/resolv.conf",
			"/etc/extensions/" + sysext:                                          extensions + sysext,
			vendorWants + "update-engine.service":                                "../update-engine.service",
			vendorWants + "locksmithd.service":                                   "../locksmithd.service",
			"/usr/lib/systemd/system/sysinit.target.wants/ensure-sysext.service": "../ensure-sysext.service",
		},
		Removed:  []string{"/etc/systemd/system/ssh.service.d", "/usr/lib/systemd/system/ssh.socket"},
		manager:  sysextManager{},
		Revision: 1,
	}
}

const (
	// sysext is the extension with containerd:
	// https://github.com/flatcar/scripts/blob/main/build_library/sysext_prod_builder
	sysext      = "containerd-flatcar"
	extensions  = "/opt/extensions/"
	vendorWants = "/usr/lib/systemd/system/multi-user.target.wants/"
)

// ensureSysext starts the extensions' units:
// https://github.com/flatcar/init/blob/flatcar-master/systemd/system/ensure-sysext.service
const ensureSysext = `[Unit]
BindsTo=systemd-sysext.service
After=systemd-sysext.service
DefaultDependencies=no
ConditionDirectoryNotEmpty=|/etc/extensions

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/systemctl daemon-reload
ExecStart=/usr/bin/systemctl restart --no-block sockets.target timers.target multi-user.target

[Install]
WantedBy=sysinit.target
`

// sysextFiles are files of the extension:
// https://github.com/flatcar/scripts/blob/main/build_library/sysext_mangle_containerd-flatcar
// and sdk_container/src/third_party/coreos-overlay/coreos/sysext/containerd
// there.
func sysextFiles() []base.File {
	return []base.File{
		{Path: "/usr/lib/extension-release.d/extension-release." + sysext, Content: "ID=flatcar\nVERSION_ID=4459.2.0\n", Mode: 0o644},
		{Path: "/usr/lib/systemd/system/multi-user.target.d/10-containerd-service.conf", Content: "[Unit]\nUpholds=containerd.service\n", Mode: 0o644},
		{Path: "/usr/share/containerd/config.toml", Content: `version = 2
imports = ["/etc/containerd/conf.d/*.toml"]
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "/run/containerd/containerd.sock"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = true
`, Mode: 0o644},
		{Path: "/usr/lib/systemd/system/containerd.service", Content: `[Unit]
Description=containerd container runtime
After=network.target

[Service]
Delegate=yes
Environment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/opt/bin
Environment=CONTAINERD_CONFIG=/usr/share/containerd/config.toml
ExecStartPre=mkdir -p /run/docker/libcontainerd
ExecStartPre=ln -fs /run/containerd/containerd.sock /run/docker/libcontainerd/docker-containerd.sock
ExecStart=/usr/bin/containerd --config ${CONTAINERD_CONFIG}
KillMode=process
Type=notify
Restart=always
RestartSec=5
LimitNOFILE=1048576
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity

[Install]
WantedBy=multi-user.target
`, Mode: 0o644},
	}
}

// sysextManager puts the offered packages into the system extension. There is no
// package manager and no repository.
type sysextManager struct{}

func (sysextManager) packages() []string { return nil }
func (sysextManager) host() []string     { return nil }
func (sysextManager) isDebian() bool     { return false }

func (sysextManager) fill(ctx context.Context, _ Shape, folder string, _, offered []pkg) error {
	extension := filepath.Join(folder, "root", extensions, sysext)
	if err := os.MkdirAll(extension, 0o755); err != nil {
		return fmt.Errorf("making the system extension: %w", err)
	}
	for _, p := range offered {
		if err := command(ctx, "cp", "-a", filepath.Join(p.folder, "usr"), extension); err != nil {
			return err
		}
	}
	for _, f := range sysextFiles() {
		if err := f.Write(extension); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(folder, repositoryFolder), 0o755)
}
