//go:build packer && linux

package main_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// With the field distro, `packer validate` finds what the builder machine would
// refuse.
func TestPackerValidateConsultsTheDistribution(t *testing.T) {
	plugin := buildPlugin(t, "0.1.0", "")
	templates := map[string]struct{ distro, kubernetes, fields, want string }{
		"a kubelet that does not start": {"amazonlinux2", "1.35.0", ``, `kubernetes_version "1.35.0" does not run on Amazon Linux 2: the newest is 1.34;`},
		"a version of a package":        {"debian", "1.34.4", `versions = { "containerd" = "2.1.5" }`, `versions["containerd"] has no effect on Debian, which has containerd as a package`},
		"a checksum of a package":       {"arch", "1.34.4", `checksums = { "runc" = "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a" }`, `checksums["runc"] has no effect on Arch Linux, which has runc as a package`},
		"FIPS":                          {"flatcar", "1.34.4", `fips = true`, `fips: Flatcar Container Linux has no FIPS mode: its cryptographic modules are not validated`},
		"package versions":              {"arch", "1.34.4", `package_versions = { "runc" = "1.3.4-1" }`, `package_versions["runc"]: pacman cannot install runc 1.3.4-1: a repository has only the newest version; remove the package from package_versions`},
		"packages":                      {"flatcar", "1.34.4", `packages = ["htop"]`, `packages: Flatcar Container Linux has no package manager, so "htop" cannot be installed`},
		"an option":                     {"flatcar", "1.34.4", `efa = true`, `efa: Flatcar Container Linux does not support it`},
		"containerd as a package":       {"debian", "1.34.4", "containerd = \"2\"\n    packages = [\"containerd\"]", `packages: the package "containerd" contradicts containerd = "2", which takes containerd and runc from upstream archives on Debian; leave the package out`},
		"containerd's version":          {"debian", "1.34.4", "containerd = \"2\"\n    versions = { \"containerd\" = \"2.1.5\" }", ""},
		"a distribution not known yet":  {"${data.null.later.output}", "1.34.4", `fips = true`, ""},
		"a kubelet with containerd 2":   {"debian", "1.36.3", `packages = ["runc"]`, `packages: the package "runc" contradicts kubernetes_version = "1.36.3", which takes containerd and runc from upstream archives`},
		"a kubelet not known yet":       {"debian", "${data.null.later.output}", "versions = { \"containerd\" = \"2.3.7\" }", ""},
		"containerd not known yet":      {"debian", "1.34.4", "containerd = data.null.later.output\n    versions = { \"containerd\" = \"2.1.5\" }", ""},
	}
	eachPacker(t, func(t *testing.T, d *workstation) {
		d.install(plugin)
		for name, test := range templates {
			t.Run(name, func(t *testing.T) {
				d.template(fmt.Sprintf(`data "null" "later" { input = "x" }
source "null" "x" { communicator = "none" }
build {
  sources = ["null.x"]
  provisioner "eksnode" {
    distro             = "%s"
    kubernetes_version = "%s"
    %s
  }
}`, test.distro, test.kubernetes, test.fields))
				said, err := d.offline("validate", ".")
				if test.want == "" {
					require.NoError(t, err, said)
					return
				}
				require.Error(t, err)
				assert.Contains(t, said, flat(test.want))
			})
		}
	})
}
