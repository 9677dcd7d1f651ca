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
		[]rule.Rule{metadataRule()},
		templateRules(),
		nodeConfigRules(),
		bootstrapRules(),
		clusterRules(),
		engineRules(),
		[]rule.Rule{bootEntryRule()},
		networkRules(),
		[]rule.Rule{profileRule()},
		hostKeyRules(),
		identityRules(),
		membershipRules(),
		agentRules(),
		cacheRules(),
		logRules(),
		peopleRules(),
		secretRules(),
		[]rule.Rule{oldIDRule(), changedRule(), runRule()},
		nodeRules(),
		[]rule.Rule{originRule(), proxyRule(), moduleRule()},
		breakerRules(sysctlRows(), modprobeRows(), mountRows(), unitRows(), firewallRows(), confinementRows(), settingRows()),
		[]rule.Rule{afterScrubRule()},
	)
}
