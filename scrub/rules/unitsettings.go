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

// unitReaders find settings of units and of systemd.
func unitReaders() map[string]reader {
	return map[string]reader{
		"unit-mount-namespace": unitHas(`^((ProtectSystem|ProtectHome)=(yes|true|1|on|full|strict|read-only|tmpfs)|` +
			`(PrivateTmp|PrivateDevices|PrivateMounts|ProtectKernelTunables|ProtectKernelLogs|ProtectControlGroups)=` +
			`(yes|true|1|on|strict|disconnected)|(ProtectProc)=(invisible|noaccess|ptraceable)|` +
			`(MountFlags)=(private|slave)|(ReadOnlyPaths|InaccessiblePaths|TemporaryFileSystem|` +
			`RootDirectory|RootImage)=.+)`),
		"unit-privileges": unitHas(`^(NoNewPrivileges|RestrictSUIDSGID|LockPersonality|MemoryDenyWriteExecute|` +
			`RestrictRealtime|ProtectHostname|ProtectClock)=(yes|true|1|on)`),
		"unit-system-calls": unitHas(`^((SystemCallFilter|SystemCallArchitectures|RestrictAddressFamilies)=.+|` +
			`(RestrictNamespaces)=(yes|true|1|on|[a-z]{2,} .*)|(ProtectKernelModules)=(yes|true|1|on))`),
		"unit-capabilities": unitHas(`^((CapabilityBoundingSet)=.*|(User)=[^0].*|(DynamicUser)=(yes|true|1|on))`),
		"unit-network": unitHas(`^((PrivateNetwork|PrivateUsers)=(yes|true|1|on)|` +
			`(IPAddressDeny|RestrictNetworkInterfaces|SocketBindDeny)=.+)`),
		"unit-umask": unitHas(`^(UMask)=0?[0-7]?[1-7]7$|^(UMask)=0?[0-7]?[2367][0-7]$`),
		"unit-limits": anyOf(
			unitHas(`^((LimitNOFILE(Soft)?|LimitNPROC)=\d{1,4}(:\d+)?$|(TasksMax)=(\d{1,3}|[1-9]%)$|`+
				`(MemoryMax|MemoryHigh)=.+[^y]$)`),
			systemdHas("system.conf",
				`^(DefaultLimitNOFILE=\d{1,4}(:\d{1,4})?|DefaultLimitNPROC=\d{1,4}|DefaultTasksMax=(\d{1,3}|[1-9]%))$`),
		),
		"unit-delegate": unitHas(`^(Delegate)=(no|false|0|off)`, "containerd.service"),
		"unit-masked": masked(append(slices.Clone(nodeUnits), "local-fs.target", "network-online.target",
			"systemd-udevd.service", "dbus.service")...),
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
		if st := d.Stat(place); st != nil && st.Mode().IsRegular() {
			kind := strings.TrimPrefix(path.Ext(unit), ".")
			// The name of a drop-in decides, not its folder.
			return settings(d, place, append(inFolders(units+unit+".d"), inFolders(units+kind+".d")...))
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
