package scrub

import "github.com/eksnode/packer-plugin-eksnode/scrub/rule"

// Rule and Phase are those of package rule.
type (
	Rule  = rule.Rule
	Phase = rule.Phase
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
