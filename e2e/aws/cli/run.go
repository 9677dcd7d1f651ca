package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	"github.com/jmespath/go-jmespath"
)

// waiter is a waiter of `wait`: the operation that it repeats, until the query has only
// wanted values. An empty one waits until the resource is gone.
type waiter struct{ operation, query, wanted string }

var waiters = map[string]waiter{
	"cluster-active":          {"describe-cluster", "cluster.status", "ACTIVE"},
	"cluster-deleted":         {operation: "describe-cluster"},
	"image-available":         {"describe-images", "Images[].State", "available"},
	"instance-profile-exists": {"get-instance-profile", "'here'", "here"},
	"instance-running":        {"describe-instances", "Reservations[].Instances[].State.Name", "running"},
	"instance-stopped":        {"describe-instances", "Reservations[].Instances[].State.Name", "stopped"},
	"instance-terminated":     {"describe-instances", "Reservations[].Instances[].State.Name", "terminated"},
	"nat-gateway-available":   {"describe-nat-gateways", "NatGateways[].State", "available"},
	"nodegroup-active":        {"describe-nodegroup", "nodegroup.status", "ACTIVE"},
	"nodegroup-deleted":       {operation: "describe-nodegroup"},
	"role-exists":             {"get-role", "'here'", "here"},
}

// command is a parsed command.
type command struct {
	arguments
	method reflect.Value
	waiter *waiter
}

// parse reads the words after aws.
func parse(clients map[string]any, words []string) (*command, error) {
	if len(words) < 2 {
		return nil, errors.New("the permission names no operation")
	}
	service, operation, rest := words[0], words[1], words[2:]
	client, known := clients[service]
	if !known {
		return nil, fmt.Errorf("the test code does not support the service %s", service)
	}
	c := &command{}
	if operation == "wait" {
		w, known := waiter{}, false
		if len(rest) > 0 {
			w, known = waiters[rest[0]]
		}
		if !known {
			return nil, fmt.Errorf("the test code does not support the waiter %q", rest)
		}
		c.waiter, operation, rest = &w, w.operation, rest[1:]
	}
	found := false
	if c.method, found = methodOf(client, operation); !found {
		return nil, fmt.Errorf("%s has no operation %s", service, operation)
	}
	in := reflect.New(c.method.Type().In(1).Elem())
	c.arguments = arguments{service: service, operation: operation, words: rest, in: in.Elem(), options: map[string]string{}}
	return c, c.read()
}

// call makes the call once.
func (c *command) call(ctx context.Context) (reflect.Value, error) {
	out := c.method.Call([]reflect.Value{reflect.ValueOf(ctx), c.in.Addr()})
	err, _ := out[1].Interface().(error)
	return out[0], err
}

// Action returns the IAM action of a command after aws, such as ec2:CreateVpc. It looks at
// no parameter.
func Action(words []string) (string, error) {
	if len(words) < 2 {
		return "", errors.New("the permission names no operation")
	}
	keep := 2
	if words[1] == "wait" {
		keep = min(3, len(words))
	}
	c, err := parse(clients(), words[:keep])
	if err != nil {
		return "", err
	}
	return c.action(), nil
}

func (c *command) action() string {
	return c.service + ":" + strings.TrimSuffix(c.in.Type().Name(), "Input")
}

// Session runs commands with the SDK.
type Session struct {
	Config aws.Config
	// Pause is the time between two looks of a waiter.
	Pause time.Duration
	// Called is called after each call that AWS answered. Answer is nil after an error.
	Called func(action, request string, answer any)
}

// Run runs a command, without aws, and writes what the AWS CLI would write.
func (s Session) Run(ctx context.Context, words []string, out io.Writer) error {
	config := s.Config.Copy()
	for i, w := range words[:max(0, len(words)-1)] {
		if w == "--region" {
			config.Region = words[i+1]
		}
	}
	c, err := parse(clientsOf(config), words)
	if err != nil {
		return err
	}
	for c.waiter != nil {
		answer, err := s.pages(ctx, c)
		if over, err := c.waiter.over(answer, err); over || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(s.Pause):
		}
	}
	answer, err := s.pages(ctx, c)
	if err != nil {
		return err
	}
	if query := c.options["query"]; query != "" {
		if answer, err = jmespath.Search(query, answer); err != nil {
			return fmt.Errorf("--query %s: %w", query, err)
		}
	}
	if c.options["output"] == "text" {
		_, err = fmt.Fprintln(out, text(answer))
		return err
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "    ")
	return e.Encode(answer)
}

// over says whether the waiting is over.
func (w *waiter) over(answer any, err error) (bool, error) {
	var said smithy.APIError
	gone := errors.As(err, &said) && (strings.Contains(said.ErrorCode(), "NotFound") || said.ErrorCode() == "NoSuchEntity")
	switch {
	case gone:
		return w.wanted == "", nil
	case err != nil || w.wanted == "":
		return false, err
	}
	found, err := jmespath.Search(w.query, answer)
	states := strings.Fields(text(found))
	over := len(states) > 0
	for _, state := range states {
		if state != w.wanted && (strings.HasSuffix(state, "FAILED") || state == "failed" || state == "terminated") {
			return false, fmt.Errorf("waiting for the state %s: the state is %s", w.wanted, state)
		}
		over = over && state == w.wanted
	}
	return over, err
}

// pages makes a call for each page of the answer, as the AWS CLI does.
func (s Session) pages(ctx context.Context, c *command) (any, error) {
	var all map[string]any
	for {
		out, err := c.call(ctx)
		action := c.action()
		for range 5 {
			if !unseen(c.operation, err) || ctx.Err() != nil {
				break
			}
			time.Sleep(s.Pause)
			out, err = c.call(ctx)
		}
		if err != nil {
			s.Called(action, requestOf(err), nil)
			return nil, err
		}
		metadata, _ := out.Elem().FieldByName("ResultMetadata").Interface().(middleware.Metadata)
		request, _ := awsmiddleware.GetRequestIDMetadata(metadata)
		page, _ := plainOf(out, c.service == "eks").(map[string]any)
		s.Called(action, request, page)
		for name, value := range page {
			if list, isList := value.([]any); isList && all != nil {
				before, _ := all[name].([]any)
				page[name] = append(before, list...)
			}
		}
		all = page
		more := false
		for _, token := range []string{"NextToken", "Marker"} {
			from, to := out.Elem().FieldByName(token), c.in.FieldByName(token)
			if from.IsValid() && to.IsValid() && !from.IsNil() && from.Elem().String() != "" {
				to.Set(from)
				more = true
			}
		}
		if !more {
			return all, nil
		}
	}
}

// unseen says whether a change failed because EC2 does not show a new resource yet
// (https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html).
func unseen(operation string, err error) bool {
	var said smithy.APIError
	verb, _, _ := strings.Cut(operation, "-")
	return errors.As(err, &said) && strings.HasSuffix(said.ErrorCode(), ".NotFound") && !slices.Contains([]string{"describe", "get", "delete"}, verb)
}

func requestOf(err error) string {
	var said interface{ ServiceRequestID() string }
	if errors.As(err, &said) {
		return said.ServiceRequestID()
	}
	return ""
}

// plainOf turns a value of the SDK into maps and lists, with the names of AWS's API.
func plainOf(v reflect.Value, small bool) any {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return plainOf(v.Elem(), small)
	case reflect.Struct:
		if t, isTime := v.Interface().(time.Time); isTime {
			return t.Format(time.RFC3339)
		}
		all := map[string]any{}
		for i := range v.NumField() {
			field := v.Type().Field(i)
			value := v.Field(i)
			if !field.IsExported() || field.Name == "ResultMetadata" || value.IsZero() && value.Kind() != reflect.Bool {
				continue
			}
			name := []rune(field.Name)
			if small {
				name[0] = unicode.ToLower(name[0])
			}
			all[string(name)] = plainOf(value, small)
		}
		return all
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plainOf(v.Index(i), small)
		}
		return list
	case reflect.Map:
		all := map[string]any{}
		for _, key := range v.MapKeys() {
			all[key.String()] = plainOf(v.MapIndex(key), small)
		}
		return all
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
	}
	return v.Interface()
}

// text writes an answer like --output text: lists in one line, None for nothing.
func text(answer any) string {
	switch answer := answer.(type) {
	case nil:
		return "None"
	case []any:
		words := make([]string, len(answer))
		for i, one := range answer {
			words[i] = text(one)
		}
		return strings.Join(words, "\t")
	}
	return fmt.Sprint(answer)
}
