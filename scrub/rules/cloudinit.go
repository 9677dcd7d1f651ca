package rules

import (
	"bytes"
	"cmp"
	"path"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// cloudInitUnits are the units in which cloud-init creates SSH host keys.
var cloudInitUnits = []string{"cloud-init.service", "cloud-init-network.service"}

// kernelArguments are the files with the kernel's arguments for the next boots.
var kernelArguments = []string{
	"/etc/default/grub", "/etc/default/grub.d/*.cfg", "/etc/kernel/cmdline", "/etc/cmdline", "/usr/lib/kernel/cmdline",
	"/boot/grub/grub.cfg", "/boot/grub2/grub.cfg", "/boot/grub/menu.lst", "/boot/grub*/grubenv",
	"/boot/efi/EFI/*/grub.cfg", "/boot/loader/entries/*.conf", "/boot/efi/loader/entries/*.conf",
	"/efi/loader/entries/*.conf",
}

var disabledByKernel = saying(`(?m)^[^#]*\bcloud-init=disabled\b`)

// cloudInitOff returns why cloud-init creates no SSH host keys at the next boot,
// or "". The ways are those of cloud-init's documentation: a file, an argument
// of the kernel, units that are off, and a configuration without keys.
func cloudInitOff(d *rule.Draft) string {
	const file = "/etc/cloud/cloud-init.disabled"
	if d.Exists(file) {
		return file + " exists"
	}
	if name := fileWith(d, kernelArguments, disabledByKernel); name != "" {
		return name + " has cloud-init=disabled"
	}
	if name := fileWith(d, []string{"/etc/cloud/ds-identify.cfg"}, identifyOff); name != "" {
		return name + " has policy: disabled"
	}
	return cmp.Or(cloudInitUnitsOff(d), cloudInitWithoutKeys(d))
}

var identifyOff = saying(`(?m)^\s*policy:\s*["']?disabled`)

// fileWith returns the first regular file of some patterns whose content
// matches.
func fileWith(d *rule.Draft, patterns []string, so func([]byte) bool) (found string) {
	d.Texts(d.Known(patterns...), func(name string, text []byte) {
		if found == "" && so(text) {
			found = name
		}
	})
	return found
}

func cloudInitUnitsOff(d *rule.Draft) string {
	masks := []string{"/etc/systemd/system-generators/cloud-init-generator"}
	for _, unit := range append([]string{"cloud-init.target", "cloud-init-main.service"}, cloudInitUnits...) {
		masks = append(masks, "/etc/systemd/system/"+unit)
	}
	for _, name := range masks {
		if target, err := d.Host.Files.ReadlinkIfPossible(name); err == nil && target == "/dev/null" {
			return path.Base(name) + " is masked"
		}
	}
	for _, unit := range cloudInitUnits {
		if isDisabled(d, unit) {
			return unit + " is disabled"
		}
	}
	return ""
}

// isDisabled reports whether a unit has instructions to be enabled, and is not.
func isDisabled(d *rule.Draft, unit string) bool {
	files := []string{"/etc/systemd/system/" + unit, "/usr/lib/systemd/system/" + unit, "/lib/systemd/system/" + unit}
	if fileWith(d, files, func(text []byte) bool { return bytes.Contains(text, []byte("[Install]")) }) == "" {
		return false
	}
	links := d.Known(starts+unit, "/usr/lib/systemd/system/*.*s/"+unit,
		"/lib/systemd/system/*.*s/"+unit)
	return d.Err == nil && len(links) == 0
}

// cloudInitWithoutKeys returns why cloud-init's configuration creates no keys:
// its modules lack ssh, or it has no types of keys. Later files win.
func cloudInitWithoutKeys(d *rule.Draft) string {
	var config struct {
		Modules *[]any `yaml:"cloud_init_modules"`
		Types   *[]any `yaml:"ssh_genkeytypes"`
	}
	files := append([]string{"/etc/cloud/cloud.cfg"}, d.Known("/etc/cloud/cloud.cfg.d/*.cfg")...)
	d.Texts(files, func(_ string, text []byte) {
		_ = yaml.Unmarshal(text, &config) // cloud-init skips files that are no YAML, too
	})
	switch {
	case config.Types != nil && len(*config.Types) == 0:
		return "its ssh_genkeytypes is empty"
	case config.Modules != nil && !slices.ContainsFunc(*config.Modules, isSSHModule):
		return "its cloud_init_modules lack ssh"
	}
	return ""
}

// isSSHModule reports whether an entry of cloud_init_modules is ssh, alone or in
// a list with its frequency.
func isSSHModule(module any) bool {
	if list, ok := module.([]any); ok && len(list) > 0 {
		module = list[0]
	}
	return module == "ssh"
}
