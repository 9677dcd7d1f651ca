package scrub

import "github.com/eksnode/packer-plugin-eksnode/scrub/rule"

// Rule, Phase and Draft are those of package rule.
type (
	Rule  = rule.Rule
	Phase = rule.Phase
	Draft = rule.Draft
)

// The phases that rules of other programs have, and the verb of findings.
const (
	State    = rule.State
	Identity = rule.Identity
	Caches   = rule.Caches
	Access   = rule.Access
	Inspect  = rule.Inspect
	Report   = rule.Report
)
