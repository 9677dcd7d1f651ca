//go:build !agent

package main

import (
	_ "embed"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/amiimport"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
	"github.com/eksnode/packer-plugin-eksnode/userdata"
)

// workstationHelp has the texts of what the agent leaves out.
//
//go:embed help_workstation.txt
var workstationHelp string

// workstationCommands are the commands that only a workstation needs. The build
// tag agent leaves them and their libraries out of the agent.
func workstationCommands() []*cobra.Command {
	commands := in(onWorkstation, distrosCommand(), lockCommand(), templateCheckCommand(), preflightCommand(),
		manifestsCommand(), userdataCommand(), amiCommand(), fleetCommand())
	return append(append(in(forImages, buildCommand(), sbomCommand()), commands...), manCommand())
}

// workstationValues returns what the flags and arguments of these commands
// complete; declaredValues describes the keys.
func workstationValues() map[string]cobra.CompletionFunc {
	return map[string]cobra.CompletionFunc{
		"--only": each(clustersetup.Table(), func(m clustersetup.Manifest) string { return m.ID + "\t" + m.About }),

		"--allow":                   words("amazon", "aws-marketplace"),
		"--arch":                    words(arches()...),
		"--aws-auth":                files("yaml", "yml"),
		"--base":                    words(distros.CloudImages()...),
		"--base-arch":               words(arches()...),
		"--image":                   files("raw", "img", "qcow2"),
		"--carrying":                words(families(false)...),
		"--description":             files("yaml", "yml", "json"),
		"--disk":                    files("raw", "img", "qcow2", "vhd"),
		"--family":                  words(append(families(true), families(false)...)...),
		"--file":                    files("json"),
		"--kubelet-version":         kubernetesVersions(),
		"--launch-template-version": words("$Default", "$Latest"),
		"manifests --family":        words(families(false)...),
		"--nodeclass":               files("yaml", "yml", "json"),
		"--ami-architecture":        words(amiimport.Architectures()...),
		"--ami-groups":              words("all"),
		"--boot-mode":               words(amiimport.BootModes()...),
		"--imds-support":            words(amiimport.IMDSSupports()...),
		"--root-file-system":        words("ext4", "xfs"),
		"--root-device-name":        words("/dev/xvda", "/dev/sda1"),
		"--tpm-support":             words("v2.0"),
		"--volume-type":             words(amiimport.VolumeTypes()...),

		"check":           once(files("pkr.hcl", "pkr.json")),
		"--key":           files("pem", "pub"),
		"--statement":     files("jsonl"),
		"--statement-key": files("pem"),
		"--template":      files("pkr.hcl"),
		"--templates":     files("pkr.hcl"),
		"ami attest":      once(files()),
		"ami diff":        files(),
		"ami export":      files("raw", "img"),
		"ami import":      once(files()),
		"ami verify":      once(files()),
		"man":             once(folders),
		"userdata check":  once(files()),
	}
}

// supplyAll returns the source of images and downloads: this program fetches both, and
// keeps them in the cache.
func supplyAll(spec provisioner.Spec, local provisioner.Local) (provisioner.Supply, error) {
	return local.Supply(spec, runtime.GOARCH, awsapi.RegistryLogin(awsapi.Options{}))
}

// checkUserData checks user data as `eksnode userdata check` does, for diagnose.
func checkUserData(text []byte) (family string, faults []string, err error) {
	r, err := userdata.CheckMerged(text, "")
	for _, p := range r.Problems {
		if !p.Warning {
			faults = append(faults, p.String())
		}
	}
	return r.Family, faults, err
}

// families lists the families of user data that carry another's, or the rest.
func families(carry bool) []string {
	var list []string
	for _, f := range userdata.Families() {
		if f.Carries == carry {
			list = append(list, f.ID+"\t"+f.About)
		}
	}
	return list
}
