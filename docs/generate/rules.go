package main

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/diagnose"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
	scrubrule "github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// rule is a rule of the scrub, as the page shows it.
type rule struct {
	scrub.Rule
	// Distros are the IDs of the distributions that have the rule; none for all.
	Distros []string
}

// rules lists the rules of the table, then those of distributions.
func rules() []rule {
	var list []rule
	for _, r := range scrub.Table() {
		list = append(list, rule{Rule: r})
	}
	for _, d := range distros.All() {
		for _, r := range d.ScrubRules() {
			i := slices.IndexFunc(list, func(have rule) bool { return have.ID == r.ID })
			if i < 0 {
				i = len(list)
				list = append(list, rule{Rule: r})
			}
			list[i].Distros = append(list[i].Distros, d.ID)
		}
	}
	return list
}

func phases() []scrub.Phase { return scrubrule.Phases }

func rulesOf(p scrub.Phase) []rule {
	return slices.DeleteFunc(rules(), func(r rule) bool { return r.Phase != p || r.Breaks != nil })
}

// breakers are the rules about settings that break nodes. They have a page of
// their own.
func breakers() []rule {
	return slices.DeleteFunc(rules(), func(r rule) bool { return r.Breaks == nil })
}

// group is a name of several rules or files.
type group struct {
	Name    string
	Members []string
}

// groups are those of the rules that are no breakers: the page of breakers says which
// groups these belong to.
func groups() []group {
	members := map[string][]string{}
	for _, r := range rules() {
		if r.Breaks != nil {
			continue
		}
		for _, name := range r.Groups {
			members[name] = append(members[name], r.ID)
		}
	}
	var list []group
	for _, name := range slices.Sorted(maps.Keys(members)) {
		list = append(list, group{name, members[name]})
	}
	return list
}

// action is a verb of rules, and what it does.
type action struct {
	Verb    plan.Verb
	Meaning string
}

// actions lists the verbs that rules use.
func actions() ([]action, error) {
	var list []action
	for _, r := range rules() {
		if slices.ContainsFunc(list, func(a action) bool { return a.Verb == r.Verb }) {
			continue
		}
		meaning, found := meanings[r.Verb]
		if !found {
			return nil, fmt.Errorf("docs/generate has no meaning of the verb %q of the rule %s", r.Verb, r.ID)
		}
		list = append(list, action{r.Verb, meaning})
	}
	return list, nil
}

var meanings = map[plan.Verb]string{
	plan.Remove:  "removes the file, link or folder",
	plan.Empty:   "removes the contents; the file or folder keeps its mode, owner and label",
	plan.Write:   "writes the file with the content it must have",
	plan.Restore: "restores the template that user data fills in",
	plan.Disable: "disables the unit, so that it does not start at boot",
	plan.Stop:    "stops the running unit",
	plan.Unmount: "unmounts the file system",
	plan.Wipe:    "discards or overwrites the freed space on disk",
	plan.Run:     "runs a command",
	scrub.Report: "changes nothing; each finding needs a person",
}

func code(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "`" + strings.Join(words, "`, `") + "`"
}

// plain makes text safe in a page, so that no character of it is markup.
func plain(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;", "\n", " ").Replace(text)
}

// asList are names behind a colon: a list of their own if they have many words.
func asList(names []string) string {
	if len(strings.Fields(quoted.ReplaceAllString(strings.Join(names, " "), ""))) > 20 {
		return "\n    - " + strings.Join(names, "\n    - ")
	}
	return " " + strings.Join(names, ", ")
}

// ruleLinks are links to the sections of rules on a page.
func ruleLinks(page string, ids []string) string {
	links := make([]string, len(ids))
	for i, id := range ids {
		links[i] = fmt.Sprintf("[`%s`](%s#%[1]s)", id, page)
	}
	return strings.Join(links, ", ")
}

// setNames are the names of files that several rules read, by a rule that reads no others.
var setNames = map[string]string{
	"ip-forward": "kernel settings", "blocked-overlay": "module settings", "cgroups": "kernel arguments",
	"noexec-cni": "mounts", "unit-privileges": "drop-ins", "dnssec": "resolver settings",
}

// readSets are the named files.
func readSets() []group {
	var sets []group
	for _, r := range breakers() {
		if name := setNames[r.ID]; name != "" {
			sets = append(sets, group{name, r.Paths})
		}
	}
	return sets
}

// reads are the files that a rule reads: names of sets, names of programs, and paths.
func reads(r rule) string {
	paths := slices.Clone(r.Paths)
	var list []string
	shorten := func(as string, set []string) {
		if slices.ContainsFunc(set, func(p string) bool { return !slices.Contains(paths, p) }) {
			return
		}
		list = append(list, as)
		paths = slices.DeleteFunc(paths, func(p string) bool { return slices.Contains(set, p) })
	}
	for _, set := range readSets() {
		shorten(fmt.Sprintf("[%s](#what-the-rules-read)", set.Name), set.Members)
	}
	for _, p := range r.Paths {
		var everywhere []string
		for _, folder := range scrubrule.ProgramFolders {
			everywhere = append(everywhere, path.Join(folder, path.Base(p)))
		}
		shorten(code([]string{path.Base(p)}), everywhere)
	}
	for _, p := range r.Paths {
		if slices.Contains(paths, p) {
			shorten(code([]string{p}), []string{p})
		}
	}
	return strings.Join(list, ", ")
}

// sure is what a page adds to a cause that is not certain.
func sure(r diagnose.Rule) string {
	level, _ := r.Certainty()
	switch level {
	case diagnose.Likely:
		return fmt.Sprintf("**Or** (`%s`): %s.", level, r.Others)
	case diagnose.Possible:
		return fmt.Sprintf("`%s`.", level)
	default:
		return ""
	}
}

// otherCommands are a cause's commands without the audit of its settings.
func otherCommands(r diagnose.Rule) []string {
	return slices.DeleteFunc(slices.Clone(r.Commands), func(c string) bool { return c == auditOf(r) })
}

func auditOf(r diagnose.Rule) string { return "sudo eksnode audit --rules " + r.ID }

var (
	plainWord = regexp.MustCompile(`^[a-z]+[ ,]`)
	// program matches names that stay in lower case.
	program = regexp.MustCompile(`^(systemd|journald|containerd|kubeadm|networkd|snapd|dnf|apt|rpm|zypper|pacman)\b`)
)

// sentences makes sentences of the parts between semicolons.
func sentences(text string) string {
	parts := strings.Split(text, "; ")
	for i, part := range parts {
		if plainWord.MatchString(part) && !program.MatchString(part) { // and not a name such as kube-proxy
			parts[i] = string(unicode.ToUpper(rune(part[0]))) + part[1:]
		}
	}
	return strings.Join(parts, ". ") + "."
}
