package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Somebody who used flags reads of flags, whatever package an error is from.
func TestErrorsNameFlags(t *testing.T) {
	provision := words{flags: provisionCommand().Flags()}
	for text, want := range map[string]string{
		`name the distribution with distro = "…", one of debian`:                               `name the distribution with --distro …, one of debian`,
		`it says that it is like debian: if it is, set distro = "debian"`:                      `it says that it is like debian: if it is, set --distro debian`,
		`supported are 12 (distro "debian"); to try it all the same, set distro to that name`:  `supported are 12 (--distro "debian"); to try it all the same, set --distro to that name`,
		`/x is not eksnode's: set bootstrap = "none" to keep that first boot`:                  `/x is not eksnode's: set --bootstrap none to keep that first boot`,
		`kernel_arguments: "fips=0" contradicts fips = true`:                                   `--kernel-argument: "fips=0" contradicts --fips`,
		`this machine does not run in FIPS mode, and fips asks for it; choose fips=1`:          `this machine does not run in FIPS mode, and --fips asks for it; choose fips=1`,
		`choosing kubelet: source "eks-bucket" needs eks_build_date, the day`:                  `choosing kubelet: --source "eks-bucket" needs --eks-build-date, the day`,
		`versions["kubelet"] is "1", but the lock file has 2; correct the field, or lock anew`: `--asset-version["kubelet"] is "1", but the lock file has 2; correct the flag, or lock anew`,
		`nothing is installed without one: or pin the sum with checksums["kubelet"]`:           `nothing is installed without one: or pin the sum with --asset-checksum["kubelet"]`,
		`name a mirror it can reach with source_url`:                                           `name a mirror it can reach with --source-url`,
		`write it down with "eksnode lock --image x" and set lock_file`:                        `write it down with "eksnode lock --image x" and set --lock-file`,
		`packages: installing packages: images cannot be had, only the source`:                 `packages: installing packages: images cannot be had, only the source`,
		`writing /etc/source_url/distro: no space left; ena_support = true`:                    `writing /etc/source_url/distro: no space left; ena_support = true`,
	} {
		assert.Equal(t, want, provision.text(text))
	}
	assert.Equal(t, "choosing rules: none is left; --only and --skip leave nothing to do",
		words{flags: scrubCommand().Flags()}.text("choosing rules: none is left; only and skip leave nothing to do"))
	r := provision.report(plan.Report{Error: "packages: Flatcar has no package manager"})
	assert.Equal(t, "--package: Flatcar has no package manager", r.Error)
	r = provision.report(plan.Report{Error: "packages: it failed", Outcomes: []plan.Outcome{{Error: "packages: it failed"}}})
	assert.Equal(t, "packages: it failed", r.Error)
}

func TestAnUnknownMachineIsToldInFlags(t *testing.T) {
	for name, want := range map[string]string{"ID=plan9\nID_LIKE=debian\n": "if it is, set --distro debian", "ID=plan9\n": "set --distro to that name", "": "name the distribution with --distro …, one of"} {
		root := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(root, "etc"), 0o755))
		if name != "" {
			require.NoError(t, os.WriteFile(filepath.Join(root, "etc/os-release"), []byte(name), 0o644))
		}
		for _, args := range [][]string{{"audit"}, {"scrub", "--plan"}, {"scrub", "--yes"}} {
			var out, errOut bytes.Buffer
			assert.NotZero(t, run(t.Context(), append(args, "--root", root), nil, &out, &errOut))
			assert.Contains(t, out.String(), want)
			assert.NotContains(t, out.String(), "distro = ")
		}
	}
}
