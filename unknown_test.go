//go:build linux

package eksnode_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// tree lists the files of a root with their content.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(name)
		all[name] = d.Name() + string(text)
		return err
	}))
	return all
}

// The os-release files of distributions that eksnode does not support. Each machine
// is refused before anything changes, with the supported distributions and what to
// do.
func TestUnknownDistributionsAreRefused(t *testing.T) {
	const behaves = "; if the machine behaves like one of them, set distro to that name"
	known := "is not known; known are " + strings.Join(distros.IDs(), ", ")
	for name, test := range map[string]struct{ release, want string }{
		"Void": {"NAME=\"Void\"\nID=\"void\"\nPRETTY_NAME=\"Void Linux\"\nHOME_URL=\"https://voidlinux.org/\"\nLOGO=\"void-logo\"\n",
			`Void Linux (ID="void" VERSION_ID="") ` + known + behaves},
		"Gentoo": {"NAME='Gentoo'\nID='gentoo'\nPRETTY_NAME='Gentoo Linux'\nVERSION='2.18'\nVERSION_ID='2.18'\n",
			`Gentoo Linux (ID="gentoo" VERSION_ID="2.18") ` + known + behaves},
		"NixOS": {"BUILD_ID=\"25.05.20250901.abc\"\nID=nixos\nID_LIKE=\"\"\nNAME=NixOS\nPRETTY_NAME=\"NixOS 25.05 (Warbler)\"\nVERSION_ID=\"25.05\"\n",
			`NixOS 25.05 (Warbler) (ID="nixos" VERSION_ID="25.05") ` + known + behaves},
		"Slackware": {"NAME=Slackware\nVERSION=\"15.0\"\nID=slackware\nVERSION_ID=15.0\nPRETTY_NAME=\"Slackware 15.0 x86_64\"\n",
			`Slackware 15.0 x86_64 (ID="slackware" VERSION_ID="15.0") ` + known + behaves},
		"Photon": {"NAME=\"VMware Photon OS\"\nVERSION=\"5.0\"\nID=photon\nVERSION_ID=5.0\nPRETTY_NAME=\"VMware Photon OS/Linux\"\n",
			`VMware Photon OS/Linux (ID="photon" VERSION_ID="5.0") ` + known + behaves},
		"Azure Linux": {"NAME=\"Microsoft Azure Linux\"\nID=azurelinux\nVERSION_ID=\"3.0\"\nPRETTY_NAME=\"Microsoft Azure Linux 3.0\"\n",
			`Microsoft Azure Linux 3.0 (ID="azurelinux" VERSION_ID="3.0") ` + known + behaves},
		"Oracle Linux, a derivative": {"NAME=\"Oracle Linux Server\"\nVERSION=\"9.6\"\nID=\"ol\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.6\"\nPRETTY_NAME=\"Oracle Linux Server 9.6\"\n",
			`Oracle Linux Server 9.6 (ID="ol" VERSION_ID="9.6") ` + known + `; its ID_LIKE names fedora: if the machine behaves like it, set distro = "fedora"`},
		"Linux Mint, a derivative": {"NAME=\"Linux Mint\"\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\nPRETTY_NAME=\"Linux Mint 22\"\nVERSION_ID=\"22\"\n",
			`Linux Mint 22 (ID="linuxmint" VERSION_ID="22") ` + known + `; its ID_LIKE names ubuntu and debian: if the machine behaves like it, set distro = "ubuntu"`},
		"Tumbleweed": {"NAME=\"openSUSE Tumbleweed\"\nID=\"opensuse-tumbleweed\"\nID_LIKE=\"opensuse suse\"\nVERSION_ID=\"20261101\"\nPRETTY_NAME=\"openSUSE Tumbleweed\"\n",
			`openSUSE Tumbleweed (ID="opensuse-tumbleweed" VERSION_ID="20261101") ` + known + behaves},
		"Alpine": {"NAME=\"Alpine Linux\"\nID=alpine\nVERSION_ID=3.22.1\nPRETTY_NAME=\"Alpine Linux v3.22\"\n",
			`Alpine Linux v3.22 (ID="alpine" VERSION_ID="3.22.1"): Alpine Linux cannot be provisioned: Alpine starts with OpenRC, and the kubelet needs systemd and its cgroups; choose one of the supported distributions; containers on the node can still use Alpine`},
		"nothing named": {"NAME=\"Own Linux\"\n", `the distribution ID="linux" VERSION_ID="" ` + known + behaves},
		"an old Debian": {"ID=debian\nVERSION_ID=\"11\"\nPRETTY_NAME=\"Debian GNU/Linux 11 (bullseye)\"\n",
			`Debian GNU/Linux 11 (bullseye) (ID="debian" VERSION_ID="11") is not supported; supported are the versions 12, 13 (distro "debian"); to try this version anyway, set distro to that name`},
	} {
		t.Run(name, func(t *testing.T) {
			h, root := image(t)
			require.NoError(t, os.WriteFile(filepath.Join(root, "etc/os-release"), []byte(test.release), 0o644))
			before := tree(t, root)
			r, err := eksnode.Provision(t.Context(), h, provisioner.Spec{KubernetesVersion: "1.34.4"}, eksnode.Options{DryRun: true})
			require.EqualError(t, err, test.want)
			assert.Equal(t, plan.Failure, r.Result)
			_, err = eksnode.Scrub(t.Context(), h, scrub.Spec{}, eksnode.Options{})
			require.EqualError(t, err, test.want)
			_, err = eksnode.Audit(t.Context(), h, scrub.Spec{}, eksnode.Options{})
			require.EqualError(t, err, test.want+`; an audit of what is no node needs no known distribution: set node = "no"`)
			r, err = eksnode.Audit(t.Context(), h, scrub.Spec{Node: scrub.NodeNo}, eksnode.Options{})
			require.NoError(t, err)
			assert.NotEmpty(t, r.Machine.Distro)
			assert.Equal(t, plan.Findings, r.Result)
			assert.Equal(t, before, tree(t, root))
		})
	}
}

// The report has the warnings, and they do not change the result.
func TestProvisionWarns(t *testing.T) {
	h, _ := image(t)
	at := func(day string) *host.Host {
		now, err := time.Parse(time.DateOnly, day)
		require.NoError(t, err)
		return h.WithClock(func() time.Time { return now })
	}
	spec := provisioner.Spec{KubernetesVersion: "1.35.4"}
	r, err := eksnode.Provision(t.Context(), at("2026-11-23"), spec, eksnode.Options{DryRun: true})
	require.NoError(t, err)
	assert.Equal(t, plan.DryRun, r.Result)
	assert.Equal(t, []string{
		"regular security support of Debian 12 ended on 2026-07-11; choose a base image with a newer release (https://wiki.debian.org/DebianReleases)",
		"support of containerd 1.6 ended on 2025-08-23; the option containerd with the value 2 installs a newer one, unless versions sets another (https://containerd.io/releases/)",
	}, r.Warnings)
	spec.Containerd = "2"
	r, err = eksnode.Provision(t.Context(), at("2026-01-01"), spec, eksnode.Options{DryRun: true})
	require.NoError(t, err)
	assert.Empty(t, r.Warnings)
	_, err = eksnode.Provision(t.Context(), at("2028-07-01"), spec, eksnode.Options{DryRun: true})
	require.ErrorContains(t, err, "long-term support of Debian 12 ended on 2028-06-30")
}
