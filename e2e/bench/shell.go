package main

import (
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// shellStep is one shell provisioner.
type shellStep struct{ name, lines string }

func (r *race) shellNames() string {
	var names []string
	for _, s := range r.shell {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

// packagesStep is the name of the step that installs packages.
const packagesStep = "packages"

// shellSteps are the shell provisioners that do what the block did, as the
// scripts in use do it. The machine's temporary folder is where they download
// to.
func (l *laid) shellSteps(source string, packages bool) ([]shellStep, error) {
	downloads, err := l.downloads(source)
	if err != nil {
		return nil, err
	}
	var steps []shellStep
	for _, o := range l.report.Outcomes {
		if len(o.Actions) == 0 || slices.Contains(onlyOurs, o.Item) {
			continue
		}
		if o.Item == packagesStep {
			if packages {
				steps = append(steps, shellStep{o.Item, l.installing(o)})
			}
			continue
		}
		var lines strings.Builder
		for _, a := range o.Actions {
			text, err := l.shellAction(a, downloads[o.Item])
			if err != nil {
				return nil, fmt.Errorf("writing a shell provisioner for the step %s: %w", o.Item, err)
			}
			lines.WriteString(text)
		}
		steps = append(steps, shellStep{o.Item, lines.String()})
	}
	return steps, nil
}

// downloads are where the assets come from, by the step that fetches them.
func (l *laid) downloads(source string) (map[string]asset.Download, error) {
	byStep := map[string]asset.Download{}
	targets := map[string]string{}
	for _, o := range l.report.Outcomes {
		for _, a := range o.Actions {
			targets[o.Item] = a.Target
		}
	}
	for _, row := range asset.Table() {
		recorded, ok := l.manifest.Asset(row.ID)
		if !ok {
			continue
		}
		d, err := row.For(asset.Choice{
			Kubernetes: l.manifest.KubernetesVersion, Version: recorded.Version, Arch: runtime.GOARCH, Source: source,
		})
		if err != nil {
			return nil, err
		}
		d.Target = targets[row.ID]
		byStep[row.ID] = d
	}
	return byStep, nil
}

func (l *laid) shellAction(a plan.Action, d asset.Download) (string, error) {
	switch a.Verb {
	case plan.Mkdir:
		return "mkdir -p " + a.Target + "\n", nil
	case plan.Write:
		return fmt.Sprintf("mkdir -p %s\ncat >%s <<'END-OF-FILE'\n%sEND-OF-FILE\n", path.Dir(a.Target), a.Target, l.contents[a.Target]), nil
	case plan.Link:
		name, to, _ := strings.Cut(a.Target, " to ")
		return fmt.Sprintf("mkdir -p %s\nln -sfn %s %s\n", path.Dir(name), to, name), nil
	case plan.Fetch:
		return fetching(d), nil
	case plan.Disable:
		return "systemctl disable --quiet " + a.Target + "\n", nil
	case plan.Run:
		return a.Target + "\n", nil
	default:
		return "", fmt.Errorf("it has an action %q that nobody has said in shell", a.Verb)
	}
}

// fetching is how scripts fetch: the checksum file and the file to a temporary
// folder, one after the other, checked, then moved or unpacked.
func fetching(d asset.Download) string {
	file := "/tmp/" + d.ID
	put := fmt.Sprintf("chmod 755 %[1]s\nmv %[1]s %[2]s\n", file, d.Target)
	if d.Kind == asset.TarGz {
		put = fmt.Sprintf("tar -xzf %[1]s --no-same-owner -C %[2]s\nrm %[1]s\n", file, d.Target)
	}
	return fmt.Sprintf(`curl -fsSL -o %[1]s.sha256 %[2]s
curl -fsSL -o %[1]s %[3]s
echo "$(cut -d' ' -f1 <%[1]s.sha256)  %[1]s" | sha256sum --quiet -c -
rm %[1]s.sha256
%[4]s`, file, d.SumURL, d.URL, put)
}

// installing installs the same packages in the same way: services do not start
// while they are installed.
func (l *laid) installing(o plan.Outcome) string {
	var names []string
	for _, a := range o.Actions {
		if a.Verb == plan.Install {
			names = append(names, a.Target)
		}
	}
	return fmt.Sprintf(`export DEBIAN_FRONTEND=noninteractive
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
apt-get update --yes
apt-get install --yes --no-install-recommends %s
rm /usr/sbin/policy-rc.d
apt-get clean
`, strings.Join(names, " "))
}
