package scrub

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// cloudInitUnits are the units in which cloud-init creates SSH host keys.
var cloudInitUnits = []string{"cloud-init.service", "cloud-init-network.service"}

// kernelArguments are the files with the kernel's arguments for the next boots.
var kernelArguments = []string{
	"/etc/default/grub", "/etc/default/grub.d/*.cfg", "/etc/kernel/cmdline", "/etc/cmdline", "/usr/lib/kernel/cmdline",
	"/boot/grub/grub.cfg", "/boot/grub2/grub.cfg", "/boot/grub/menu.lst", "/boot/grub*/grubenv", "/boot/efi/EFI/*/grub.cfg", "/boot/loader/entries/*.conf", "/boot/efi/loader/entries/*.conf", "/efi/loader/entries/*.conf",
}

var disabledByKernel = expression(`(?m)^[^#]*\bcloud-init=disabled\b`)

// cloudInitOff returns why cloud-init creates no SSH host keys at the next boot,
// or "". The ways are those of cloud-init's documentation: a file, an argument
// of the kernel, units that are off, and a configuration without keys.
func cloudInitOff(h *host.Host) (string, error) {
	const file = "/etc/cloud/cloud-init.disabled"
	if there, err := h.Exists(file); err != nil || there {
		return file + " exists", err
	}
	name, err := fileWith(h, kernelArguments, func(text []byte) bool { return disabledByKernel().Match(text) })
	if err != nil || name != "" {
		return name + " has cloud-init=disabled", err
	}
	name, err = fileWith(h, []string{"/etc/cloud/ds-identify.cfg"}, func(text []byte) bool { return identifyOff().Match(text) })
	if err != nil || name != "" {
		return name + " has policy: disabled", err
	}
	for _, look := range []func(*host.Host) (string, error){cloudInitUnitsOff, cloudInitWithoutKeys} {
		if why, err := look(h); err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}

var identifyOff = expression(`(?m)^\s*policy:\s*["']?disabled`)

// fileWith returns the first regular file of some patterns whose content
// matches.
func fileWith(h *host.Host, patterns []string, so func([]byte) bool) (string, error) {
	names, _, err := matching(h, patterns)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if st, err := h.Files.Stat(name); leadsNowhere(err) || err == nil && st.IsDir() {
			continue
		}
		text, err := h.Content(name)
		if err != nil {
			return "", err
		}
		if so(text) {
			return name, nil
		}
	}
	return "", nil
}

// cloudInitUnitsOff returns which unit of cloud-init is masked or disabled.
func cloudInitUnitsOff(h *host.Host) (string, error) {
	for _, unit := range append([]string{"cloud-init.target", "cloud-init-main.service"}, cloudInitUnits...) {
		name := path.Join("/etc/systemd/system", unit)
		if target, err := h.Files.ReadlinkIfPossible(name); err == nil && target == "/dev/null" {
			return unit + " is masked", nil
		}
	}
	generator := "cloud-init-generator"
	if target, err := h.Files.ReadlinkIfPossible("/etc/systemd/system-generators/" + generator); err == nil && target == "/dev/null" {
		return generator + " is masked", nil
	}
	for _, unit := range cloudInitUnits {
		off, err := isDisabled(h, unit)
		if err != nil || off {
			return unit + " is disabled", err
		}
	}
	return "", nil
}

// isDisabled reports whether a unit has instructions to be enabled, and is not.
func isDisabled(h *host.Host, unit string) (bool, error) {
	file, err := fileWith(h, []string{"/etc/systemd/system/" + unit, "/usr/lib/systemd/system/" + unit, "/lib/systemd/system/" + unit},
		func(text []byte) bool { return bytes.Contains(text, []byte("[Install]")) })
	if err != nil || file == "" {
		return false, err
	}
	for _, pattern := range []string{"/etc/systemd/system/*.*s/" + unit, "/usr/lib/systemd/system/*.*s/" + unit, "/lib/systemd/system/*.*s/" + unit} {
		if links, _, err := matching(h, []string{pattern}); err != nil || len(links) > 0 {
			return false, err
		}
	}
	return true, nil
}

// cloudInitWithoutKeys returns why cloud-init's configuration creates no keys:
// its modules lack ssh, or it has no types of keys. Later files win.
func cloudInitWithoutKeys(h *host.Host) (string, error) {
	var config struct {
		Modules *[]any `yaml:"cloud_init_modules"`
		Types   *[]any `yaml:"ssh_genkeytypes"`
	}
	names, _, err := matching(h, []string{"/etc/cloud/cloud.cfg.d/*.cfg"})
	if err != nil {
		return "", err
	}
	for _, name := range append([]string{"/etc/cloud/cloud.cfg"}, names...) {
		if st, err := h.Files.Stat(name); leadsNowhere(err) || errors.Is(err, fs.ErrNotExist) || err == nil && st.IsDir() {
			continue
		}
		text, err := h.Content(name)
		if err != nil {
			return "", err
		}
		_ = yaml.Unmarshal(text, &config) // cloud-init skips files that are no YAML, too
	}
	if config.Types != nil && len(*config.Types) == 0 {
		return "its ssh_genkeytypes is empty", nil
	}
	if config.Modules != nil && !slices.ContainsFunc(*config.Modules, isSSHModule) {
		return "its cloud_init_modules lack ssh", nil
	}
	return "", nil
}

// isSSHModule reports whether an entry of cloud_init_modules is ssh, alone or in
// a list with its frequency.
func isSSHModule(module any) bool {
	if list, ok := module.([]any); ok && len(list) > 0 {
		module = list[0]
	}
	return module == "ssh"
}
