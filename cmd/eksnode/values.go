package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// declaredValues returns what flags and arguments complete, by "COMMAND --FLAG",
// by "--FLAG" for every other command with this flag, and by "COMMAND" for its
// arguments. The lists are those that the validation uses. Others take free text.
func declaredValues() map[string]cobra.CompletionFunc {
	return map[string]cobra.CompletionFunc{
		"--distro": each(distros.All(), func(d distros.Distro) string { return d.ID + "\t" + d.Name }),
		"--skip":   each(bootstrap.Phases(), func(p bootstrap.Phase) string { return string(p) }),
		"--source": each(asset.Origins(), func(o asset.Origin) string { return o.ID + "\t" + o.Why }),

		"--agents":                   words(provisioner.Agents()...),
		"--audit":                    words(scrub.Audits()...),
		"--bootstrap":                words(provisioner.Bootstraps()...),
		"--ca-certificates":          namedFiles("pem", "crt", "cer"),
		"--cache-folder":             folders,
		"--checksums":                beginnings(pairs(asset.IDs())...),
		"--config-cache":             files(),
		"--config-output":            files(),
		"--containerd":               words(provisioner.Containerds()...),
		"--config-source":            beginnings(nodeconfig.UserDataSource, "file://"),
		"--daemon":                   words(bootstrap.Daemons()...),
		"--fips":                     words(provisioner.FIPSModes()...),
		"--swap":                     words(provisioner.Swaps()...),
		"--hardening":                words(provisioner.Hardenings()...),
		"--hardening-content":        files("xml"),
		"--image-archives":           files("tar"),
		"--kubelet-defaults":         files("yaml", "yml", "json"),
		"--kubernetes-version":       kubernetesVersions(),
		"--lock-file":                files("json"),
		"--node":                     words(scrub.Nodes()...),
		"--node-command":             files(),
		"--nvidia-container-toolkit": words(provisioner.DeviceLists()...),
		"--report":                   files("json", "html"),
		"--repositories":             namedFiles("sources", "repo", "conf"),
		"--repository-keys":          namedFiles("asc", "gpg", "key"),
		"--root":                     folders,
		"--rules":                    ruleNames,
		"--rules-file":               files("yaml", "yml"),
		"--skip-rules":               ruleNames,
		"--spec":                     files("json"),
		"--versions":                 beginnings(pairs(asset.IDs())...),

		"bootstrap.sh": words(arguments.Flags()...),
		"completion":   once(words(shells()...)),
		"diagnose":     files(),
		"help":         commands,
	}
}

// commands completes the subcommands of the command that the arguments name.
func commands(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	found, rest, err := cmd.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list []string
	for _, sub := range found.Commands() {
		if sub.IsAvailableCommand() {
			list = append(list, sub.Name()+"\t"+sub.Short)
		}
	}
	return words(list...)(cmd, args, begun)
}

// kubernetesVersions completes minor versions; a patch version follows.
func kubernetesVersions() cobra.CompletionFunc {
	list := show.Each(provisioner.Minors(), func(minor string) string { return minor + "." })
	return beginnings(list...)
}

func pairs(names []string) []string {
	return show.Each(names, func(n string) string { return n + "=" })
}

// ruleNames completes rules and groups, also those of the file of --rules-file.
func ruleNames(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	rules := append(scrub.Table(), distros.ScrubRules()...)
	if file := cmd.Flag("rules-file"); file != nil && file.Changed {
		s := selection{local: scrub.Local{RulesFile: file.Value.String()}}
		if err := s.check(scrub.ToList); err == nil { // otherwise the command reports the error
			for _, own := range s.spec.Own {
				rules = append(rules, own.AsOwn())
			}
		}
	}
	var names []string
	members := map[string]int{}
	seen := map[string]bool{}
	for _, r := range rules {
		if !seen[r.ID] {
			names = append(names, r.ID+"\t"+r.Why)
		}
		seen[r.ID] = true
		for _, g := range r.Groups {
			members[g]++
		}
	}
	for _, g := range slices.Sorted(maps.Keys(members)) {
		if !seen[g] {
			names = append(names, fmt.Sprintf("%s\tgroup with %d rules", g, members[g]))
		}
	}
	return words(names...)(cmd, args, begun)
}
