// Package rules has the rules of the scrub that apply to any distribution. Their data are
// rule files, one for each subject; their functions are in a Go file for each program.
// Package rule says what a row is. What the rules search for secrets is in package secrets.
package rules

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

//go:embed *.yaml
var files embed.FS

// subjects are the files of rows, in the order they run.
var subjects = []string{
	"quiesce", "kubelet", "bootstrap", "clusters", "identity", "agents", "logs", "people", "audit", "breakers", "order",
}

// row is a rule in a file: in the form of an operator's rule file, with more fields.
type row struct {
	rule.Rule `yaml:",inline"`
	// Programs have the paths of the row, and are its owners. A row with the action report
	// reports what it finds of them.
	Programs []program
	// Units are the units that the row stops.
	Units []string
	// Function says that the table of functions has the row's ID.
	Function bool
}

// rows reads the files, once and side by side: a scrub waits for them.
var rows = sync.OnceValue(func() (all []row) {
	read := make([]struct{ Rules []row }, len(subjects))
	var group errgroup.Group
	for i, subject := range subjects {
		group.Go(func() error {
			in, err := files.Open(subject + ".yaml")
			if err == nil {
				known := yaml.NewDecoder(in)
				known.KnownFields(true)
				err = known.Decode(&read[i])
			}
			if err != nil {
				return fmt.Errorf("reading the rules in %s.yaml: %w", subject, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		panic(err) // the files are ours
	}
	for _, file := range read {
		all = append(all, file.Rules...)
	}
	for i, r := range all {
		if r.Programs != nil {
			all[i].Owner, all[i].Paths = ownersAndPaths(r.Programs)
		}
	}
	return all
})

// rowOf is the row with an ID.
func rowOf(id string) row {
	return rows()[slices.IndexFunc(rows(), func(r row) bool { return r.ID == id })]
}

// All lists the rules in the order they run.
func All() []rule.Rule {
	all, err := bind(rows(), functions())
	if err != nil {
		panic(err)
	}
	return all
}

// bind joins rows with the functions that have their IDs. A row without the function that it
// names is an error, and so is a function without a row.
func bind(rows []row, functions map[string]half) ([]rule.Rule, error) {
	var all []rule.Rule
	for _, w := range rows {
		r := w.Rule
		r.Groups, r.Paths = slices.Clone(r.Groups), slices.Clone(r.Paths) // callers own them
		set, there := functions[r.ID]
		delete(functions, r.ID)
		switch {
		case there != (w.Function || w.Breaks != nil):
			return nil, fmt.Errorf("rule %s: the row and the functions disagree whether it has one", r.ID)
		case there:
			set(&r)
		case w.Units != nil:
			r.Look = stopUnits(w.Units)
		case r.Verb == rule.Report:
			r.Look = leftovers(w.Programs)
		}
		all = append(all, r)
	}
	if len(functions) > 0 {
		return nil, fmt.Errorf("functions of no row: %s", strings.Join(slices.Sorted(maps.Keys(functions)), ", "))
	}
	return all, nil
}

// half sets the functions of a row.
type half func(*rule.Rule)

// looks is a half that plans the row.
func looks(look func(*rule.Draft)) half { return func(r *rule.Rule) { r.Look = look } }

// functions has the functions of rows, by ID.
func functions() map[string]half {
	all := map[string]half{
		"journal-on-disk": looks(relinquishJournal),
		"meshes-running":  looks(meshesRunning),

		"containers":             looks(containers),
		"images-there":           looks(imagesLost),
		"kubelet-mounts":         looks(unmountBelow),
		"kubelet-unknown":        looks(unknownKubeletFiles),
		"pod-volumes":            looks(volumesOfPods),
		"instance-store-mounted": looks(instanceStore),
		"local-disks":            looks(localDisks),
		"swap":                   looks(unusedSwapFiles),
		"containers-metadata":    looks(freedContainers),

		"kubelet-kubeconfig":         looks(restore(reverseKubeconfig)),
		"kubelet-config":             looks(restore(reverseKubeletConfig)),
		"containerd-template":        looks(restore(reverseContainerdConfig)),
		"nodeconfig-sources":         looks(clusterNodeConfigs),
		"generated-environments":     looks(generatedEnvironments),
		"credential-provider-config": looks(credentialProvider),
		"containerd-config":          looks(generatedContainerdConfig),
		"soci-config":                looks(generatedSOCI),
		"iptables-rules":             looks(removesWhere("contains the old cluster's chains", `KUBE-|AWS-SNAT-CHAIN`)),
		"bootstrap-units":            looks(copiedUnits),
		"kubelet-enabled":            looks(kubeletEnabled),

		"kubeadm-unknown": looks(unknownToKubeadm),

		"boot-entries":            looks(bootEntries),
		"resolv-conf":             looks(removesFiles(ofBuilder)),
		"iptables-restore":        looks(restoresNothing),
		"hosts":                   looks(ownLinesInHosts),
		"network-addresses":       looks(machineProfiles),
		"ssh-host-keys":           func(r *rule.Rule) { r.Applies = hostKeysComeBack },
		"ssh-host-keys-elsewhere": looks(hostKeysElsewhere),
		"machine-id":              looks(emptyMachineID),
		"dbus-machine-id":         looks(dbusMachineID),
		"iscsi-initiator":         looks(staleInitiator),
		"snapd-state":             looks(snapdWithoutDevice),

		"agent-folders": looks(agentFolders),

		"login-records":   looks(logins),
		"login-databases": looks(removesFiles("it says who logged in to the build machine")),
		"log-files":       looks(logFiles),

		"names-in-configs": looks(removesWhere("names the person who built the image",
			`(?im)^\s*(name|email|username|PACKAGER)\s*=\s*\S`)),
		"homes-left": looks(homesWithoutAccount),
		"lingering":  looks(lingering),
		"ssh-passwords": looks(removesWhere("user data allow logins with passwords",
			`(?im)^\s*PasswordAuthentication\s+"?yes`)),
		"authorized-keys-elsewhere": looks(keysElsewhere),

		"secrets-left":   looks(secretsLeft),
		"host-ids-left":  looks(hostIDsLeft),
		"old-ids-left":   looks(oldIDsLeft),
		"changed-files":  looks(changedFiles),
		"run-left":       looks(runLeft),
		"not-a-node":     looks(notANode),
		"can-join":       looks(canJoin),
		"build-paths":    looks(buildPaths),
		"kernel-modules": looks(modulesMissing),
		"after-scrub":    looks(afterScrub),
	}
	for _, readers := range []map[string]reader{
		sysctlReaders(), modprobeReaders(), mountReaders(), unitReaders(), firewallReaders(), confinementReaders(),
		settingReaders(),
	} {
		for id, reads := range readers {
			if all[id] != nil {
				panic("two functions have the ID " + id)
			}
			all[id] = reads.breaker
		}
	}
	return all
}
