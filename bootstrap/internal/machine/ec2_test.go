package machine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

func TestIsEC2(t *testing.T) {
	const dmi = "/sys/class/dmi/id/"
	for name, c := range map[string]struct {
		files map[string]string
		is    bool
		why   string
	}{
		"Nitro":                      {map[string]string{dmi + "sys_vendor": "Amazon EC2\n", dmi + "board_vendor": "Amazon EC2\n"}, true, dmi + `sys_vendor is "Amazon EC2"`},
		"Xen":                        {map[string]string{dmi + "sys_vendor": "Xen\n", "/sys/hypervisor/uuid": "ec2e1916-9099-7caf-fd21-012345abcdef\n"}, true, `/sys/hypervisor/uuid is "ec2e1916-9099-7caf-fd21-012345abcdef"`},
		"Xen by its UUID":            {map[string]string{dmi + "sys_vendor": "Xen\n", dmi + "product_uuid": "EC2E1916-9099-7CAF-FD21-012345ABCDEF\n"}, true, dmi + `product_uuid is "EC2E1916-9099-7CAF-FD21-012345ABCDEF"`},
		"Xen by its BIOS":            {map[string]string{dmi + "sys_vendor": "Xen\n", dmi + "bios_version": "4.11.amazon\n"}, true, dmi + `bios_version is "4.11.amazon"`},
		"another vendor":             {map[string]string{dmi + "sys_vendor": "QEMU\n", dmi + "product_uuid": "45e12aec-dcd1-b213-94ed-012345abcdef\n"}, false, `the machine's vendor is "QEMU"`},
		"Xen of another vendor":      {map[string]string{dmi + "sys_vendor": "Xen\n", dmi + "bios_version": "4.17\n"}, false, `the machine's vendor is "Xen"`},
		"no firmware":                {nil, false, "the machine's firmware names no vendor"},
		"a container on an instance": {map[string]string{dmi + "sys_vendor": "Amazon EC2\n", container: "systemd-nspawn\n"}, false, "this is a container"},
	} {
		t.Run(name, func(t *testing.T) {
			h := hosttest.Root(t, c.files)
			is, why, err := IsEC2(h)
			require.NoError(t, err)
			assert.Equal(t, c.is, is)
			assert.Equal(t, c.why, why)
		})
	}
}
