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
		nodeConfigRules(),
		bootstrapRules(),
		clusterRules(),
		engineRules(),
		bootEntryRules(),
		networkRules(),
		profileRules(),
		hostKeyRules(),
		identityRules(),
		membershipRules(),
		agentRules(),
		cacheRules(),
		logRules(),
		peopleRules(),
		secretRules(),
		oldIDRules(),
		changedRules(),
		runRules(),
		nodeRules(),
		originRules(),
		proxyRules(),
		moduleRules(),
		breakerRules(sysctlRows(), modprobeRows(), mountRows(), unitRows(), firewallRows(), confinementRows(), settingRows()),
		afterScrubRules(),
	)
}
