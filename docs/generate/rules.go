package main

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/diagnose"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/lifecycle"
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

// group is a name that selects several rules.
type group struct {
	Name  string
	Rules []string
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

// asList are names behind a colon: a list of their own if they are many.
func asList(names []string) string {
	if len(strings.Fields(strings.Join(names, " "))) > 20 {
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

// readSets are files that several rules read, each as a rule that reads no others.
var readSets = []struct{ Name, Rule string }{
	{"kernel settings", "ip-forward"},
	{"module settings", "blocked-overlay"},
	{"kernel arguments", "cgroups"},
	{"mounts", "noexec-cni"},
	{"drop-ins", "unit-privileges"},
	{"resolver settings", "dnssec"},
}

// readSet are the files of a set.
func readSet(id string) ([]string, error) {
	all := breakers()
	i := slices.IndexFunc(all, func(r rule) bool { return r.ID == id })
	if i < 0 {
		return nil, fmt.Errorf("docs/generate: there is no rule %s", id)
	}
	return all[i].Paths, nil
}

// reads are the files that a rule reads: names of sets, names of programs, and paths.
func reads(r rule) (string, error) {
	paths := slices.Clone(r.Paths)
	var list []string
	shorten := func(as string, set []string) {
		if slices.ContainsFunc(set, func(p string) bool { return !slices.Contains(paths, p) }) {
			return
		}
		list = append(list, as)
		paths = slices.DeleteFunc(paths, func(p string) bool { return slices.Contains(set, p) })
	}
	for _, named := range readSets {
		set, err := readSet(named.Rule)
		if err != nil {
			return "", err
		}
		shorten(fmt.Sprintf("[%s](#what-the-rules-read)", named.Name), set)
	}
	for _, p := range r.Paths {
		var everywhere []string
		for _, folder := range scrubrule.ProgramFolders {
			everywhere = append(everywhere, path.Join(folder, path.Base(p)))
		}
		shorten(code([]string{path.Base(p)}), everywhere)
	}
	for _, p := range paths {
		if !slices.Contains(list, code([]string{p})) {
			list = append(list, code([]string{p}))
		}
	}
	return strings.Join(list, ", "), nil
}

// sure is a sentence about a cause that is not certain.
func sure(r diagnose.Rule) string {
	level, why := r.Certainty()
	if level == diagnose.Certain {
		return ""
	}
	return fmt.Sprintf("`%s`: %s.", level, why)
}

// otherCommands are a cause's commands without the audit of its settings.
func otherCommands(r diagnose.Rule) []string {
	return slices.DeleteFunc(slices.Clone(r.Commands), func(c string) bool { return c == auditOf(r) })
}

func auditOf(r diagnose.Rule) string { return "sudo eksnode audit --rules " + r.ID }

var (
	plainWord = regexp.MustCompile(`^[a-z]+[ ,]`)
	// program matches names that stay in lower case.
	program = regexp.MustCompile(`^(systemd|journald|containerd|kubeadm|cloud-init|networkd|snapd|dnf|apt|rpm|zypper|pacman)\b`)
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

// fact is a property of a distribution, as the page shows it.
type fact struct{ Name, Value string }

// facts are the properties that can be the same on many distributions. Each
// distribution has all of them, in this order.
func facts(d distros.Distro) []fact {
	list := []fact{{"identified by", "`ID=" + strings.Join(d.OSRelease, "` or `ID=") + "`"}}
	for _, role := range distros.Roles {
		list = append(list, fact{"packages for " + string(role), packages(d.Packages[role])})
	}
	for _, option := range distros.Options {
		value := "not supported"
		if d.Can(option) {
			value = packages(d.OptionPackages[option])
		}
		list = append(list, fact{"packages for `" + string(option) + "`", value})
	}
	driver := "not supported"
	if len(d.NVIDIA.Open) > 0 {
		driver = packages(d.NVIDIA.Open)
	}
	list = append(list, fact{"packages for `nvidia` with open modules", driver})
	fips := d.FIPS.Enable
	fips = cmp.Or(fips, "not supported: "+d.FIPS.None)
	return append(list,
		fact{"levels of `hardening`", levels(d.Guide)},
		fact{"network", capability(d.Network.Name, d.Network.Settings)},
		fact{"security module", d.Security.Name},
		fact{"clock", capability(d.Time.Name, d.Time.Settings)},
		fact{"FIPS mode", fips},
		fact{"kernel arguments", d.Kernel.Name},
		fact{"folder for commands", "`" + d.CommandFolder + "`"},
		fact{"folder for units", "`" + d.UnitFolder + "`"},
		fact{"certificate authorities", fmt.Sprintf("`%s/*%s`, then `%s`", d.CAAnchors, d.CASuffix, strings.Join(d.CARefresh, " "))},
		fact{"default user", "`" + d.DefaultUser + "`"},
	)
}

func levels(g distros.Guide) string {
	if len(g.Packages) == 0 {
		return "none"
	}
	return code(g.Levels) + " with " + code(g.Packages)
}

func packages(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return code(names)
}

// common are the facts that more than half of the distributions share.
func common() []fact {
	all := distros.All()
	var shared []fact
	for i := range facts(all[0]) {
		count := map[fact]int{}
		for _, d := range all {
			f := facts(d)[i]
			if count[f]++; count[f] == len(all)/2+1 {
				shared = append(shared, f)
			}
		}
	}
	return shared
}

// differing are the facts of a distribution that are not common.
func differing(d distros.Distro) []fact {
	return slices.DeleteFunc(facts(d), func(f fact) bool { return slices.Contains(common(), f) })
}

// named is a part of distributions, with what it puts into an image.
type named struct {
	Name, Why string
	distros.Settings
}

// Empty says whether the part changes nothing in an image.
func (n named) Empty() bool {
	return n.Why == "" && len(n.Files)+len(n.Masked)+len(n.Removed) == 0
}

// capability is a part's name, as a link where the page describes the part.
func capability(name string, s distros.Settings) string {
	if (named{Name: name, Settings: s}).Empty() {
		return name
	}
	return fmt.Sprintf("[%s](#%s)", name, anchor(name))
}

// parts are the network stacks, clocks and peculiarities that the page
// describes, each once.
func parts() []named {
	var list []named
	add := func(n named) {
		i := slices.IndexFunc(list, func(have named) bool { return have.Name == n.Name })
		switch {
		case n.Empty():
		case i < 0:
			list = append(list, n)
		default: // the same part may mask other paths elsewhere
			for _, m := range n.Masked {
				if !slices.Contains(list[i].Masked, m) {
					list[i].Masked = append(slices.Clip(list[i].Masked), m)
				}
			}
		}
	}
	for _, d := range distros.All() {
		add(named{d.Network.Name, "", d.Network.Settings})
	}
	for _, d := range distros.All() {
		add(named{d.Time.Name, "", d.Time.Settings})
	}
	for _, d := range distros.All() {
		for _, q := range d.Quirks {
			add(named{q.Name, q.Why, q.Settings})
		}
	}
	return list
}

// peculiarities are links to the parts that a distribution names as its quirks.
func peculiarities(d distros.Distro) string {
	var links []string
	for _, q := range d.Quirks {
		links = append(links, fmt.Sprintf("[%s](#%s)", q.Name, anchor(q.Name)))
	}
	return strings.Join(links, ", ")
}

// containerd says in a cell where a distribution's containerd comes from.
func containerd(d distros.Distro) string {
	switch {
	case slices.Contains(d.Upstream, "containerd"):
		return "upstream archive"
	case len(d.Packages[distros.ContainerRuntime]) > 0:
		return "package, " + containerdVersions(d)
	default:
		return "base image, " + containerdVersions(d)
	}
}

func containerdVersions(d distros.Distro) string {
	var list []string
	for _, version := range d.ReleaseNames() {
		if v := d.Releases[version].Containerd; !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return strings.Join(list, ", ")
}

// byEnd divides the distributions by the day on which the table of versions was checked,
// because pages must not change with the day of their generation.
func byEnd() (current, ended []distros.Distro, err error) {
	day, err := time.Parse(time.DateOnly, lifecycle.Checked)
	current, ended = distros.ByEnd(day)
	return current, ended, err
}
