//go:build !agent

package main

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/amiimport"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
	"github.com/eksnode/packer-plugin-eksnode/userdata"
)

// workstationCommands are the commands that only a workstation needs. The build
// tag agent leaves them and their libraries out of the agent.
func workstationCommands() []*cobra.Command {
	commands := in(onWorkstation, distrosCommand(), lockCommand(), templateCheckCommand(), preflightCommand(), manifestsCommand(), userdataCommand(), amiCommand())
	return append(commands, manCommand())
}

// workstationValues returns what the flags and arguments of these commands
// complete; declaredValues describes the keys.
func workstationValues() map[string]cobra.CompletionFunc {
	nothing := cobra.NoFileCompletions
	return map[string]cobra.CompletionFunc{
		"--ami":                        nothing,
		"--arch":                       words(arches()...),
		"--assume-role":                nothing,
		"--aws-auth":                   files("yaml", "yml"),
		"--carrying":                   words(families(false)...),
		"--cluster":                    nothing,
		"--description":                files("yaml", "yml", "json"),
		"--disk":                       files("raw", "img", "qcow2", "vhd"),
		"--endpoint":                   nothing,
		"--external-id":                nothing,
		"--family":                     words(append(families(true), families(false)...)...),
		"--file":                       files("json"),
		"--instance":                   nothing,
		"--instance-profile":           nothing,
		"--instance-type":              nothing,
		"--keep":                       nothing,
		"--kubelet-version":            kubernetesVersions(),
		"--label":                      nothing,
		"--launch-template":            nothing,
		"--launch-template-version":    words("$Default", "$Latest"),
		"--max-pods":                   nothing,
		"--older-than":                 nothing,
		"--only":                       words(manifestNames()...),
		"--parameter":                  nothing,
		"--partition":                  nothing,
		"--profile":                    nothing,
		"--role":                       nothing,
		"--snapshot":                   nothing,
		"--subnet":                     nothing,
		"--taint":                      nothing,
		"manifests --family":           words(families(false)...),
		"--from":                       nothing,
		"--to":                         nothing,
		"--kms-key":                    nothing,
		"--volume-initialization-rate": nothing,
		"--volume-size":                nothing,
		"manifests --cni-permissions":  words(cniByPodIdentity, cniOnNode),
		"--nodeclass":                  files("yaml", "yml", "json"),
		"--nodegroup":                  nothing,
		"--ami-description":            nothing,
		"--ami-name":                   nothing,
		"--ami-org-arns":               nothing,
		"--ami-ou-arns":                nothing,
		"--ami-regions":                nothing,
		"--ami-users":                  nothing,
		"--deprecate-at":               nothing,
		"--iops":                       nothing,
		"--kms-key-id":                 nothing,
		"--parent-ami":                 nothing,
		"--parent-snapshot":            nothing,
		"--region-kms-key-ids":         nothing,
		"--root-partition":             nothing,
		"--snapshot-tags":              nothing,
		"--snapshot-users":             nothing,
		"--tags":                       nothing,
		"--throughput":                 nothing,
		"--uefi-data":                  nothing,
		"--ami-architecture":           words(amiimport.Architectures()...),
		"--ami-groups":                 words("all"),
		"--boot-mode":                  words(amiimport.BootModes()...),
		"--imds-support":               words(amiimport.IMDSSupports()...),
		"--root-device-name":           words("/dev/xvda", "/dev/sda1"),
		"--tpm-support":                words("v2.0"),
		"--volume-type":                words(amiimport.VolumeTypes()...),

		"check":          once(files("pkr.hcl", "pkr.json")),
		"ami diff":       files(),
		"ami export":     files("raw", "img"),
		"ami import":     once(files()),
		"ami publish":    nothing,
		"man":            once(folders),
		"userdata check": once(files()),
	}
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

func manifestNames() []string {
	var list []string
	for _, m := range clustersetup.Table() {
		list = append(list, m.ID+"\t"+m.About)
	}
	return list
}

// supplyOf returns the source of container images without Packer: this program pulls
// the images.
func supplyOf(spec provisioner.Spec, local provisioner.Local) (provisioner.Supply, error) {
	if images, err := spec.References(); err != nil || len(images) == 0 {
		return nil, err
	}
	return local.Supply(spec, runtime.GOARCH, awsapi.RegistryLogin(awsapi.Options{}))
}
