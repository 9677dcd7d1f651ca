// Package cli is test code. It checks commands of the AWS CLI in documentation
// and scripts against the SDK's operations and types, and runs them with the SDK.
// A command that the package cannot read is an error.
package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/freetier"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"mvdan.cc/sh/v3/syntax"
)

// errNotSent ends a call that passed all checks before it would be sent.
var errNotSent = errors.New("nothing was sent")

type nobody struct{}

func (nobody) Do(*http.Request) (*http.Response, error) { return nil, errNotSent }

// clients returns the SDK's clients that send nothing.
func clients() map[string]any {
	return clientsOf(aws.Config{
		Region: "eu-west-1", HTTPClient: nobody{}, Retryer: func() aws.Retryer { return aws.NopRetryer{} },
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
		}),
	})
}

// clientsOf returns the SDK's clients by their names on the command line.
func clientsOf(c aws.Config) map[string]any {
	return map[string]any{
		"autoscaling": autoscaling.NewFromConfig(c),
		"kms":         kms.NewFromConfig(c),
		"ec2":         ec2.NewFromConfig(c), "eks": eks.NewFromConfig(c), "freetier": freetier.NewFromConfig(c),
		"iam": iam.NewFromConfig(c), "ssm": ssm.NewFromConfig(c), "sts": sts.NewFromConfig(c),
		"route53": route53.NewFromConfig(c), "service-quotas": servicequotas.NewFromConfig(c),
	}
}

// Check returns what is wrong with the commands of a line. For the AWS CLI,
// Check reads every parameter and value. Other commands only need to be in
// known.
func Check(line string, known ...string) error {
	commands, err := split(line)
	if err != nil {
		return err
	}
	if len(commands) == 0 {
		return errors.New("the line has no command")
	}
	var errs []error
	for _, words := range commands {
		switch {
		case words[0] == "aws":
			if err := checkAWS(words[1:]); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", strings.Join(words, " "), err))
			}
		case !slices.Contains(known, words[0]):
			errs = append(errs, fmt.Errorf("%s: not a supported command", words[0]))
		}
	}
	return errors.Join(errs...)
}

// Operation returns an error unless a permission such as ec2:DescribeImages
// names an existing operation.
func Operation(permission string) bool {
	service, name, _ := strings.Cut(permission, ":")
	client, known := clients()[strings.Replace(service, "servicequotas", "service-quotas", 1)]
	return known && reflect.ValueOf(client).MethodByName(name).IsValid()
}

func checkAWS(words []string) error {
	if len(words) == 2 && words[0] == "configure" && words[1] == "list" {
		return nil
	}
	c, err := parse(clients(), words)
	if err != nil {
		return err
	}
	// The SDK checks required parameters before it sends anything.
	if _, err := c.call(context.Background()); !errors.Is(err, errNotSent) {
		return err
	}
	return nil
}

// methodOf finds the client's method for an operation's name on the command
// line.
func methodOf(client any, name string) (reflect.Value, bool) {
	v := reflect.ValueOf(client)
	for i := range v.NumMethod() {
		if strings.EqualFold(v.Type().Method(i).Name, strings.ReplaceAll(name, "-", "")) {
			return v.Method(i), true
		}
	}
	return reflect.Value{}, false
}

// substituted replaces text that a shell would insert.
const substituted = "substituted"

// split splits a shell line into commands and their words, also those inside $( ).
func split(line string) (all [][]string, err error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(line), "")
	if err != nil {
		return nil, err
	}
	refuse := func(n syntax.Node) {
		err = errors.Join(err, fmt.Errorf("a shell expands %q: %s", line[n.Pos().Offset():n.End().Offset()], line))
	}
	word := func(parts []syntax.WordPart) (text string) {
		for _, part := range parts {
			switch part := part.(type) {
			case *syntax.Lit:
				if strings.ContainsAny(part.Value, "*?~…") {
					refuse(part)
				}
				text += strings.ReplaceAll(part.Value, `\'`, "'")
			case *syntax.SglQuoted:
				text += part.Value
			case *syntax.CmdSubst:
				text += substituted
			default:
				refuse(part)
			}
		}
		return text
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			var words []string
			for _, w := range n.Args {
				words = append(words, word(w.Parts))
			}
			all = append(all, words)
		case *syntax.Stmt:
			if n.Background {
				refuse(n)
			}
		case *syntax.Redirect, *syntax.Assign, *syntax.Comment, *syntax.Subshell:
			refuse(n)
		}
		return true
	})
	return all, err
}
