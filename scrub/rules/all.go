// Package rules has the rules of the scrub that apply to any distribution: a file
// for each program, with its rows and, below them, what the rows do. A new file
// also needs its function in All. Package rule says what a row is. What the rules
// search for secrets is in package secrets.
package rules

import (
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// All lists the rules in the order they run.
func All() []rule.Rule {
	return slices.Concat(
		quiesceRules(),
		containerRules(),
		kubeletRules(),
		instanceStoreRules(),
		metadataRules(),
		templateRules(),
		credentialProviderRules(),
		containerdConfigRules(),
		nodeConfigRules(),
		environmentRules(),
		bootstrapRules(),
		clusterRules(),
		kubeadmRules(),
		engineRules(),
		iptablesRestoreRules(),
		bootEntryRules(),
		networkRules(),
		profileRules(),
		machineIDRules(),
		hostKeyRules(),
		hostsRules(),
		identityRules(),
		iscsiRules(),
		swapRules(),
		snapdRules(),
		membershipRules(),
		agentRules(),
		cacheRules(),
		agentFolderRules(),
		logRules(),
		agentLogRules(),
		peopleRules(),
		accessRules(),
		secretRules(),
		oldIDRules(),
		changedRules(),
		runRules(),
		nodeRules(),
		joinRules(),
		originRules(),
		proxyRules(),
		moduleRules(),
		breakerRules(sysctlRows(), modprobeRows(), mountRows(), unitRows(), firewallRows(), confinementRows(), settingRows()),
		imageRules(),
		afterScrubRules(),
	)
}
