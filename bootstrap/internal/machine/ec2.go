package machine

import (
	"fmt"
	"path"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

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
