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
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// errNotSent is what a call ends with that was right as far as it could be seen.
var errNotSent = errors.New("nothing is sent")

type nobody struct{}

func (nobody) Do(*http.Request) (*http.Response, error) { return nil, errNotSent }

// clients are the services by their names on the command line.
func clients() map[string]any {
	c := aws.Config{
		Region: "eu-west-1", HTTPClient: nobody{}, Retryer: func() aws.Retryer { return aws.NopRetryer{} },
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
		}),
	}
	return map[string]any{
		"autoscaling": autoscaling.NewFromConfig(c),
		"ec2":         ec2.NewFromConfig(c), "eks": eks.NewFromConfig(c), "iam": iam.NewFromConfig(c), "ssm": ssm.NewFromConfig(c), "sts": sts.NewFromConfig(c),
	}
}

// waiters are what `wait` asks.
var waiters = map[string]string{"image-available": "describe-images", "cluster-active": "describe-cluster"}

// Check says what is wrong with the commands of a line: of the AWS CLI's every
// parameter and value, of the others only that they are among known.
func Check(line string, known ...string) error {
	commands, err := split(line)
	if err != nil {
		return err
	}
	if len(commands) == 0 {
		return errors.New("there is no command")
	}
	var errs []error
	for _, words := range commands {
		switch {
		case words[0] == "aws":
			if err := checkAWS(words[1:]); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", strings.Join(words, " "), err))
			}
		case !slices.Contains(known, words[0]):
			errs = append(errs, fmt.Errorf("%s: it is no command", words[0]))
		}
	}
	return errors.Join(errs...)
}

// Operation says whether a permission such as ec2:DescribeImages is of an
// operation there is.
func Operation(permission string) bool {
	service, name, _ := strings.Cut(permission, ":")
	client, known := clients()[service]
	return known && reflect.ValueOf(client).MethodByName(name).IsValid()
}

func checkAWS(words []string) error {
	if len(words) < 2 {
		return errors.New("it names no operation")
	}
	service, operation, rest := words[0], words[1], words[2:]
	if service == "configure" && operation == "list" && len(rest) == 0 {
		return nil
	}
	client, known := clients()[service]
	if !known {
		return fmt.Errorf("nothing reads the service %s here", service)
	}
	if operation == "wait" {
		if len(rest) == 0 || waiters[rest[0]] == "" {
			return fmt.Errorf("nothing reads the waiter %q here", rest)
		}
		operation, rest = waiters[rest[0]], rest[1:]
	}
	method, found := methodOf(client, operation)
	if !found {
		return fmt.Errorf("%s has no operation %s", service, operation)
	}
	in := reflect.New(method.Type().In(1).Elem())
	a := arguments{service: service, operation: operation, words: rest, in: in.Elem()}
	if err := a.read(); err != nil {
		return err
	}
	// The SDK looks for what is required before it sends anything.
	out := method.Call([]reflect.Value{reflect.ValueOf(context.Background()), in})
	if err, _ := out[1].Interface().(error); !errors.Is(err, errNotSent) {
		return err
	}
	return nil
}

// methodOf finds an operation by its name on the command line.
func methodOf(client any, name string) (reflect.Value, bool) {
	v := reflect.ValueOf(client)
	for i := range v.NumMethod() {
		if strings.EqualFold(v.Type().Method(i).Name, strings.ReplaceAll(name, "-", "")) {
			return v.Method(i), true
		}
	}
	return reflect.Value{}, false
}
