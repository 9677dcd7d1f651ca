//go:build full

package provisioner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros/livetest"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

const (
	toyModule = "#include <linux/module.h>\nMODULE_LICENSE(\"GPL\");\n"
	toyDKMS   = `PACKAGE_NAME="efa"
PACKAGE_VERSION="3.0"
BUILT_MODULE_NAME[0]="efa"
DEST_MODULE_LOCATION[0]="/updates/dkms"
MAKE[0]="make -C ${kernel_source_dir} M=${dkms_tree}/efa/3.0/build modules"
AUTOINSTALL="yes"
`
)

// Debian's kernel for clouds has no module efa. A package of the module's source comes from
// a repository, and the real dkms builds it with the real headers of that kernel. An
// offline root has no running kernel that dkms could choose instead.
func TestTheModuleOfAKernelThatLacksItIsBuilt(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		sources, err := os.ReadFile("/etc/apt/sources.list")
		if !os.IsNotExist(err) {
			require.NoError(t, err)
		}
		publish(t, h, deb{"efa", "3.0", map[string]string{
			"usr/src/efa-3.0/dkms.conf": toyDKMS, "usr/src/efa-3.0/efa.c": toyModule,
			"usr/src/efa-3.0/Makefile": "obj-m := efa.o\n", "DEBIAN/postinst": "#!/bin/sh\nset -e\ndkms add efa/3.0\n"}})
		own, err := os.ReadFile("/etc/apt/sources.list")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile("/etc/apt/sources.list", append(sources, own...), 0o644))
		s := Spec{KubernetesVersion: "1.34.4", EFA: true, Kernel: "linux-image-cloud-amd64", Packages: []string{"dkms"}}
		require.NoError(t, s.Validate())
		n, err := newNode(s, bareDebian(t), "amd64")
		require.NoError(t, err)
		items := []plan.Item{n.packages(), n.kernel(), n.drivers()}
		outcomes, err := plan.Apply(t.Context(), h, items, nil)
		require.NoError(t, err)
		assert.Len(t, outcomes[2].Actions, 2, "the package and its module")
		built, err := filepath.Glob("/lib/modules/*-cloud-amd64/updates/dkms/efa.ko*")
		require.NoError(t, err)
		require.Len(t, built, 1)
		assert.NoFileExists(t, dkmsKey)
		magic, err := h.Run(t.Context(), host.Command{Argv: []string{"modinfo", "--field", "vermagic", built[0]}})
		require.NoError(t, err)
		assert.Contains(t, string(magic), filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(built[0])))))
		for _, p := range plan.Make(t.Context(), h, items) {
			assert.Empty(t, p.Actions, "a second run changes nothing")
			assert.Empty(t, p.Error)
		}

		n.spec.Kernel = ""
		require.NoError(t, os.MkdirAll("/lib/modules/6.2", 0o755))
		require.NoError(t, os.WriteFile("/lib/modules/6.2/modules.order", nil, 0o644))
		_, err = h.Run(t.Context(), host.Command{Argv: []string{"dpkg", "--remove", "efa"}})
		require.NoError(t, err)
		_, err = plan.Apply(t.Context(), h, []plan.Item{n.drivers()}, nil)
		assert.ErrorContains(t, err, "efa: the kernel 6.2 has no module efa; set kernel to one that has it, "+
			"or for which the package efa is built")
	})
}
