package machine

import (
	"fmt"
	"path"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// container is there in every container that systemd starts in
// (https://systemd.io/CONTAINER_INTERFACE). What the firmware says is about its
// host then.
const container = "/run/systemd/container"

// mark is a file in which EC2 leaves its name.
type mark struct {
	file string
	is   func(text string) bool
}

// marks are those of Nitro and of bare metal, then those of Xen. Sources:
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

// IsEC2 says whether the machine is an EC2 instance, without asking anybody, and
// by what that is known. An instance's metadata service is then waited for, also
// when it is slow, and any other machine does not wait for one that never answers.
func IsEC2(h *host.Host) (is bool, why string, err error) {
	if there, err := h.Exists(container); err != nil {
		return false, "", fmt.Errorf("looking what this machine is: %w", err)
	} else if there {
		return false, "this is a container", nil
	}
	vendor := ""
	for _, m := range marks() {
		content, err := h.Content(m.file)
		if err != nil {
			return false, "", fmt.Errorf("looking what this machine is: %w", err)
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
