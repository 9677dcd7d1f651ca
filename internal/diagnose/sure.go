package diagnose

import "github.com/eksnode/packer-plugin-eksnode/internal/version"

// Certainty says how sure a cause is.
type Certainty string

// The levels.
const (
	// Certain means that the lines themselves say what is wrong.
	Certain Certainty = "certain"
	// Likely means that the lines have another cause in some cases.
	Likely Certainty = "likely"
	// Possible means that the lines show a failure, but not its cause.
	Possible Certainty = "possible"
)

// levels are in the order of findings.
var levels = []Certainty{Certain, Likely, Possible}

// Certainty says how sure the cause is if its lines are the only ones, and why.
func (r Rule) Certainty() (sure Certainty, why string) {
	switch {
	case r.Otherwise:
		return Possible, "the lines show that something failed, but not why"
	case r.Others != "":
		return Likely, "the lines may also mean that " + r.Others
	default:
		return Certain, "the lines say what is wrong"
	}
}

// Pages is the page about the causes, relative to docs. Each has a heading.
const Pages = "reference/causes.md"

// Page is the address of the text about the cause.
func (r Rule) Page() string { return version.Page(Pages + "#" + r.ID) }

// weigh fills in how sure the finding is.
func (f *Finding) weigh(joined bool) {
	rule := f.Rule
	rule.Otherwise = f.general()
	f.Certainty, f.Why = rule.Certainty()
	f.Address = rule.Page()
	if f.state && f.Certainty == Certain {
		f.Certainty, f.Why = Likely, "the machine's files have this effect, and no line of a log shows it"
	}
	if joined {
		f.Why += "; the logs also show that the node joined"
	}
}
