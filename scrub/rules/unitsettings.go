package rules

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

var nodeUnits = []string{"kubelet.service", "containerd.service"}

// unitRows are settings of units and of systemd with which the kubelet or
// containerd do not work. Drop-ins of service.d, which are for every service,
// count too.
func unitRows() []breaker {
	const own = "Set the option to no in a drop-in of the unit whose name sorts last, such as " +
		"kubelet.service.d/zz-node.conf"
	return []breaker{
		{
			id: "unit-mount-namespace", cause: "file-system",
			reads: unitHas(`^((ProtectSystem|ProtectHome)=(yes|true|1|on|full|strict|read-only|tmpfs)|` +
				`(PrivateTmp|PrivateDevices|PrivateMounts|ProtectKernelTunables|ProtectKernelLogs|ProtectControlGroups)=(yes|true|1|on|strict|disconnected)|` +
				`(ProtectProc)=(invisible|noaccess|ptraceable)|(MountFlags)=(private|slave)|(ReadOnlyPaths|InaccessiblePaths|TemporaryFileSystem|RootDirectory|RootImage)=.+)`),
			program: "kubelet, containerd",
			shows:   "the service gets its own mounts: pods do not see their volumes, and containerd leaves mounts behind",
			fix:     own, source: "systemd.exec(5): mount propagation; systemd.unit(5): service.d",
		},
		{
			id: "unit-privileges", cause: "oci-runtime",
			reads:   unitHas(`^(NoNewPrivileges|RestrictSUIDSGID|LockPersonality|MemoryDenyWriteExecute|RestrictRealtime|ProtectHostname|ProtectClock)=(yes|true|1|on)`),
			program: "containers",
			shows: `containers inherit the restriction: sudo, setuid programs or JIT compilers fail with "operation not ` +
				`permitted"`,
			fix: own, source: "systemd.exec(5): seccomp filters and no_new_privs are inherited",
		},
		{
			id: "unit-system-calls", cause: "oci-runtime",
			reads:   unitHas(`^((SystemCallFilter|SystemCallArchitectures|RestrictAddressFamilies)=.+|(RestrictNamespaces)=(yes|true|1|on|[a-z]{2,} .*)|(ProtectKernelModules)=(yes|true|1|on))`),
			program: "runc",
			shows:   `runc cannot create namespaces, mounts or sockets, or load modules: "operation not permitted"`,
			fix:     "Reset the option with an empty value in a drop-in of the unit",
			source:  "systemd.exec(5): system call filters are inherited",
		},
		{
			id: "unit-capabilities", cause: "oci-runtime",
			reads:   unitHas(`^((CapabilityBoundingSet)=.*|(User)=[^0].*|(DynamicUser)=(yes|true|1|on))`),
			program: "kubelet, containerd", shows: `they need all capabilities of root: "operation not permitted"`,
			fix: "Remove the line", source: "capabilities(7); runc: config.json capabilities",
		},
		{
			id: "unit-network", cause: "blocked",
			reads:   unitHas(`^((PrivateNetwork|PrivateUsers)=(yes|true|1|on)|(IPAddressDeny|RestrictNetworkInterfaces|SocketBindDeny)=.+)`),
			program: "kubelet, containerd", shows: "they reach neither the API server nor a registry",
			fix:    "Reset the option with an empty value in a drop-in of the unit",
			source: "systemd.resource-control(5): IPAddressDeny=",
		},
		{
			id: "unit-umask", cause: "oci-runtime", reads: unitHas(`^(UMask)=0?[0-7]?[1-7]7$|^(UMask)=0?[0-7]?[2367][0-7]$`),
			program: "kubelet, containerd",
			shows:   "folders of volumes and images are closed to containers that do not run as root",
			fix:     "Set UMask=0022 in a drop-in of the unit", source: "systemd.exec(5): UMask=; umask(2)",
		},
		{
			id: "unit-limits", cause: "limits",
			reads: anyOf(
				unitHas(`^((LimitNOFILE(Soft)?|LimitNPROC)=\d{1,4}(:\d+)?$|(TasksMax)=(\d{1,3}|[1-9]%)$|(MemoryMax|MemoryHigh)=.+[^y]$)`),
				systemdHas("system.conf",
					`^(DefaultLimitNOFILE=\d{1,4}(:\d{1,4})?|DefaultLimitNPROC=\d{1,4}|DefaultTasksMax=(\d{1,3}|[1-9]%))$`),
			),
			program: "kubelet, containerd",
			shows:   `with more pods, they fail with "too many open files" or "resource temporarily unavailable"`,
			fix:     "Set LimitNOFILE=infinity and TasksMax=infinity in a drop-in of the unit",
			source:  "containerd.service of containerd; systemd-system.conf(5)",
		},
		{
			id: "unit-delegate", cause: "cgroups", reads: unitHas(`^(Delegate)=(no|false|0|off)`, "containerd.service"),
			program: "containerd", shows: "systemd takes the cgroups of containers back, and their limits are lost",
			fix: "Set Delegate=yes in a drop-in of containerd.service", source: "systemd.resource-control(5): Delegate=",
		},
		{
			id: "unit-masked", cause: "units",
			reads: masked(append(slices.Clone(nodeUnits), "local-fs.target", "network-online.target",
				"systemd-udevd.service", "dbus.service")...),
			program: "the unit", shows: "the unit never starts, and no unit that needs it does",
			fix: "Unmask the unit", source: "systemctl(1): mask",
		},
	}
}

// inFolders are the places of a folder of systemd, the strongest first. A file hides files
// of the same name in later ones (systemd.unit(5), sysctl.d(5), modprobe.d(5)).
func inFolders(name string) []string {
	return show.Each([]string{"/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"}, func(dir string) string {
		return path.Join(dir, name)
	})
}

// unitSettings returns the last value of each option of a unit: of its file and
// its drop-ins, in systemd's order. A unit without a file has none.
func unitSettings(d *rule.Draft, unit string) map[string]rule.Setting {
	const units = "systemd/system/"
	for _, place := range inFolders(units + unit) {
		if there := d.Files(place); len(there) > 0 { // the name of a drop-in decides, not its folder
			kind := strings.TrimPrefix(path.Ext(unit), ".")
			return settings(d, there[0], append(inFolders(units+unit+".d"), inFolders(units+kind+".d")...))
		}
	}
	return nil
}

// settings returns the last value of each option of a file and its drop-ins.
func settings(d *rule.Draft, file string, dropIns []string) map[string]rule.Setting {
	return d.LastSettings(append([]string{file}, d.ConfFiles(dropIns...)...), func(key string) string { return key })
}

// unitHas finds options of units, nodeUnits if none is named, whose "Option=value"
// matches a pattern.
func unitHas(pattern string, units ...string) reader {
	if len(units) == 0 {
		units = nodeUnits
	}
	paths := []string{"/etc/systemd/system/service.d/*.conf"}
	for _, unit := range units {
		paths = append(paths, "/etc/systemd/system/"+unit+".d/*.conf")
	}
	return reader{paths, func(d *rule.Draft) {
		for _, unit := range units {
			matching(d, unitSettings(d, unit), pattern, " of "+unit)
		}
	}}
}

// systemdHas finds options of one of systemd's programs whose "Option=value" matches a
// pattern: those of its file in /etc/systemd and of its drop-ins.
func systemdHas(file, pattern string) reader {
	main := "/etc/systemd/" + file
	return reader{[]string{main, main + ".d/*.conf"}, func(d *rule.Draft) {
		matching(d, settings(d, main, inFolders("systemd/"+file+".d")), "(?i)"+pattern, "")
	}}
}

// matching finds the settings whose "Option=value" matches a pattern.
func matching(d *rule.Draft, values map[string]rule.Setting, pattern, of string) {
	wanted := regexp.MustCompile(pattern)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if s := values[key]; wanted.MatchString(key + "=" + s.Value) {
			d.Find(s.File, s.Says(key+of))
		}
	}
}
