//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
)

type statement struct {
	Sid, Effect string
	Action      words
	Resource    words
	Condition   map[string]any `json:",omitempty"`
}

// words are a JSON string or a list of them.
type words []string

func (w *words) UnmarshalJSON(text []byte) error {
	if one := ""; json.Unmarshal(text, &one) == nil {
		*w = words{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(w))
}

// commands returns the simple commands of a script, with the words that it knows.
// Other words are "x".
func commands(script string) (all [][]string, err error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(script), "script")
	if err != nil {
		return nil, err
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if c, isCall := n.(*syntax.CallExpr); isCall && len(c.Args) > 0 {
			line := []string{}
			for _, w := range c.Args {
				word := w.Lit()
				if word == "" {
					word = "x"
				}
				line = append(line, word)
			}
			all = append(all, line)
		}
		return true
	})
	return all, nil
}

// policy returns the least IAM policy of steps and of the teardown. It comes from the
// scripts themselves, from the policies that eksnode prints, and from those of templates in the
// repository.
func policy(eksnode, repository string, all []step) (string, error) {
	own, of := map[string]bool{}, map[string]bool{}
	scripts := []string{`aws sts get-caller-identity
aws ec2 describe-regions`, lacking}
	for _, s := range all {
		scripts = append(scripts, s.Script)
		for _, action := range s.Actions {
			own[action] = true
		}
	}
	for _, k := range kinds {
		scripts = append(scripts, k.List, k.Delete)
	}
	var printed []statement
	for _, s := range all {
		if s.Template == "" {
			continue
		}
		statements, err := policyOf(os.ReadFile(filepath.Join(repository, s.Template, "policy.json")))
		if err != nil {
			return "", err
		}
		// The proof publishes by itself.
		printed = append(printed, slices.DeleteFunc(statements, func(s statement) bool { return s.Sid == "Publish" })...)
	}
	for _, script := range scripts {
		lines, err := commands(script)
		if err != nil {
			return "", err
		}
		for _, line := range lines {
			switch {
			case line[0] == "aws":
				action, err := cli.Action(line[1:])
				if err != nil {
					return "", fmt.Errorf("%s: %w", strings.Join(line, " "), err)
				}
				own[action] = true
			case line[0] == "eksnode":
				name := slices.DeleteFunc(slices.Clone(line[1:3]), func(w string) bool { return strings.HasPrefix(w, "-") || w == "x" })
				if command := strings.Join(name, " "); !unlisted[command] && !of[command] {
					of[command] = true
					statements, err := printedBy(eksnode, name)
					if err != nil {
						return "", err
					}
					printed = append(printed, statements...)
				}
			}
		}
	}
	for _, s := range printed {
		if len(s.Condition) == 0 {
			for _, action := range s.Action {
				own[action] = true
			}
		}
	}
	// https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
	delete(own, "sts:GetCallerIdentity") // needs no permission
	merged := []statement{{Sid: "EksnodeProof", Effect: "Allow", Action: slices.Sorted(maps.Keys(own)), Resource: words{"*"}}}
	seen := map[string]bool{}
	for _, s := range printed {
		if len(s.Condition) > 0 && !seen[s.Sid] { // KMS, only through EC2
			seen[s.Sid] = true
			merged = append(merged, s)
		}
	}
	text, err := json.MarshalIndent(map[string]any{"Version": "2012-10-17", "Statement": merged}, "", "  ")
	return string(text) + "\n", err
}

// lacking lists those of $actions that the caller's policies do not allow. The name of an assumed
// role has no path: https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html.
const lacking = `caller=$(aws sts get-caller-identity --query Arn --output text)
case $caller in
*:assumed-role/*) caller=$(aws iam get-role --role-name "$(echo "$caller" | cut -d/ -f2)" --query Role.Arn --output text) ;;
esac
aws iam simulate-principal-policy --policy-source-arn "$caller" --action-names $actions \
  --query "EvaluationResults[?EvalDecision!='allowed'].EvalActionName" --output text
`

// check returns an error that names the actions of a policy that the caller may not use. Where
// IAM does not answer, a call that is denied ends the run.
func (p *proof) check(ctx context.Context, least string) error {
	var document struct{ Statement []statement }
	if err := json.Unmarshal([]byte(least), &document); err != nil {
		return err
	}
	var missing []string
	for some := range slices.Chunk(document.Statement[0].Action, 50) {
		found, err := p.shell(ctx, lacking, map[string]string{"actions": strings.Join(some, " ")})
		if err != nil {
			fmt.Fprintf(p.out, "The permissions were not checked: %v\n", err)
			return ctx.Err()
		}
		missing = append(missing, strings.Fields(found)...)
	}
	if len(missing) > 0 {
		return fmt.Errorf("your policies do not allow %s on all resources; UNCHECKED=1 runs without this check",
			strings.Join(missing, ", "))
	}
	return nil
}

// unlisted are the commands of eksnode that print no policy: their steps have the actions.
var unlisted = map[string]bool{
	"build": true, "ami publish": true, "ami promote": true, "ami retire": true, "ami policy": true, "ami revoke": true,
}

func printedBy(eksnode string, command []string) ([]statement, error) {
	statements, err := policyOf(exec.Command(eksnode, append(command, "--policy")...).Output())
	if err != nil {
		return nil, fmt.Errorf("eksnode %s --policy: %w", strings.Join(command, " "), err)
	}
	return statements, nil
}

// policyOf returns the statements of a policy that was read.
func policyOf(text []byte, err error) ([]statement, error) {
	if err != nil {
		return nil, err
	}
	var document struct{ Statement []statement }
	return document.Statement, json.Unmarshal(text, &document)
}
