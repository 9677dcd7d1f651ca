//go:build full

package provisioner

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
)

// moduleSource is a package of a module's source, which dkms builds. more are lines of dkms.conf.
func moduleSource(pkg, version, folder, module, more string) deb {
	at := "usr/src/" + folder + "-" + version + "/"
	return deb{pkg, version, map[string]string{
		at + module + ".c": "#include <linux/module.h>\nMODULE_LICENSE(\"GPL\");\n", at + "Makefile": "obj-m := " + module + ".o\n",
		at + "dkms.conf": fmt.Sprintf("PACKAGE_NAME=%[1]s\nPACKAGE_VERSION=%[2]s\nBUILT_MODULE_NAME[0]=%[3]s\nAUTOINSTALL=yes\n"+
			"MAKE[0]=\"make -C ${kernel_source_dir} M=${dkms_tree}/%[1]s/%[2]s/build modules\"\n%[4]s", folder, version, module, more),
		// As the package of Neuron does: the running kernel is the host's.
		at + "postinstall": "#!/bin/sh -e\necho neuron > /etc/modules-load.d/neuron.conf\nfind /lib/modules/`uname -r` -name neuron.ko\n",
		"DEBIAN/postinst":  "#!/bin/sh\nset -e\ndkms add " + folder + "/" + version + "\n",
	}}
}

// Debian's kernel for clouds has no module efa. A package of the module's source comes from
// a repository, and the real dkms builds it with the real headers of that kernel. An
// offline root has no running kernel that dkms could choose instead.
func TestTheModuleOfAKernelThatLacksItIsBuilt(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		sources, err := os.ReadFile("/etc/apt/sources.list")
		if !os.IsNotExist(err) {
			require.NoError(t, err)
		}
		publish(t, h, moduleSource("efa", "3.0", "efa", "efa", "DEST_MODULE_LOCATION[0]=/updates/dkms\n"),
			moduleSource("aws-neuronx-dkms", "2.27.4.0", "aws-neuronx", "neuron",
				"DEST_MODULE_LOCATION[0]=/kernel/drivers/neuron/\nPOST_INSTALL=./postinstall\n"),
			deb{"aws-neuronx-tools", "2.27.0", map[string]string{"opt/aws/neuron/bin/neuron-ls": "#!/bin/sh\n"}})
		own := testkit.Content(t, "/etc/apt/sources.list")
		require.NoError(t, os.WriteFile("/etc/apt/sources.list", append(sources, []byte(own)...), 0o644))
		s := Spec{KubernetesVersion: "1.34.4", EFA: true, Neuron: true, Kernel: "linux-image-cloud-amd64",
			Packages: []string{"dkms"}}
		require.NoError(t, s.Validate())
		n := nodeFor(t, s, bareDebian(t), "amd64")
		require.NoError(t, settle(t, h, pick(n, "packages", "kernel", "drivers")...))
		for _, module := range []string{"efa", "neuron"} {
			built := testkit.Glob(t, "/lib/modules/*-cloud-amd64/updates/dkms/"+module+".ko*")
			require.Len(t, built, 1, module)
			magic, err := h.Run(t.Context(), host.Command{Argv: []string{"modinfo", "--field", "vermagic", built[0]}})
			require.NoError(t, err)
			assert.Contains(t, string(magic), filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(built[0])))))
		}
		assert.NoFileExists(t, dkmsKey)

		n.spec.Kernel = ""
		testkit.Write(t, "/lib/modules/6.2/modules.order", "")
		_, err = h.Run(t.Context(), host.Command{Argv: []string{"dpkg", "--remove", "efa"}})
		require.NoError(t, err)
		assert.ErrorContains(t, settle(t, h, pick(n, "drivers")...), "efa: the kernel 6.2 has no module efa; set kernel to one that has it, "+
			"or for which the package efa is built")
	})
}
