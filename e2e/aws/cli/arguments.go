package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// arguments are the words after an operation's name.
type arguments struct {
	service, operation string
	words              []string
	in                 reflect.Value
	options            map[string]string // global ones
}

// global lists the options of every command.
var global = []string{"query", "output", "region", "profile"}

// ruled lists the CLI's own options for one rule of a security group
// (awscli/customizations/ec2/secgroupsimplify.py).
var ruled = []string{"protocol", "port", "source-group", "cidr"}

func (a *arguments) read() error {
	rule := strings.HasPrefix(a.operation, "authorize-security-group-")
	for i := 0; i < len(a.words); {
		name, found := strings.CutPrefix(a.words[i], "--")
		if !found {
			return fmt.Errorf("the value %q has no parameter before it", a.words[i])
		}
		i++
		from := i
		for i < len(a.words) && !strings.HasPrefix(a.words[i], "--") {
			i++
		}
		values := a.words[from:i]
		switch {
		case slices.Contains(global, name) && len(values) == 1:
			a.options[name] = values[0]
		case rule && slices.Contains(ruled, name) && len(values) == 1:
			if name == "port" {
				if _, err := strconv.Atoi(values[0]); err != nil {
					return fmt.Errorf("--port %s: %w", values[0], err)
				}
			}
		case a.operation == "create-cluster" && name == "kubernetes-version": // awscli/customizations/argrename.py
			if err := a.set("version", values); err != nil {
				return fmt.Errorf("--kubernetes-version: %w", err)
			}
		case a.operation == "run-instances" && name == "count": // awscli/customizations/ec2/addcount.py
			for _, name := range []string{"min-count", "max-count"} {
				if err := a.set(name, values); err != nil {
					return fmt.Errorf("--count: %w", err)
				}
			}
		case a.operation == "run-instances" && name == "user-data" && len(values) == 1: // awscli/customizations/paramfile.py
			if err := a.set(name, []string{base64.StdEncoding.EncodeToString([]byte(values[0]))}); err != nil {
				return err
			}
		case a.operation == "create-network-acl-entry" && (name == "ingress" || name == "egress"):
			if err := a.set("egress", nil); err != nil {
				return err
			}
		default:
			if err := a.set(name, values); err != nil {
				return fmt.Errorf("--%s: %w", name, err)
			}
		}
	}
	return nil
}

// set writes the values of a parameter into its field.
func (a *arguments) set(name string, values []string) error {
	field := a.in.FieldByNameFunc(func(f string) bool { return strings.EqualFold(f, strings.ReplaceAll(name, "-", "")) })
	if !field.IsValid() {
		return fmt.Errorf("%s has no such parameter", a.operation)
	}
	t := field.Type()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	flag := t.Kind() == reflect.Bool || t.Kind() == reflect.Struct && t.Name() == "AttributeBooleanValue"
	switch {
	case flag && len(values) == 0:
		return a.value(field, "true")
	case len(values) == 0:
		return fmt.Errorf("the value is missing")
	case field.Kind() == reflect.Slice && !strings.HasPrefix(values[0], "["):
		field.Set(reflect.MakeSlice(field.Type(), len(values), len(values)))
		for i, v := range values {
			if err := a.value(field.Index(i), v); err != nil {
				return err
			}
		}
		return nil
	case len(values) > 1:
		return fmt.Errorf("the parameter has one value, not %q", values)
	}
	return a.value(field, values[0])
}

// value writes one word into a field. The word is plain, JSON or the CLI's
// shorthand.
func (a *arguments) value(field reflect.Value, word string) error {
	t := field.Type()
	if t.Kind() == reflect.Pointer {
		field.Set(reflect.New(t.Elem()))
		return a.value(field.Elem(), word)
	}
	switch {
	case t.Kind() == reflect.Struct && t.Name() == "AttributeBooleanValue" && word == "true":
		return a.value(field.FieldByName("Value"), word)
	case strings.HasPrefix(word, "{") || strings.HasPrefix(word, "["):
		if t.Kind() == reflect.String { // a policy: a JSON document inside a string
			field.SetString(word)
			return json.Unmarshal([]byte(word), new(any))
		}
		var document any
		if err := json.Unmarshal([]byte(word), &document); err != nil {
			return err
		}
		return a.document(field, document, t.Name())
	case t.Kind() == reflect.Struct || t.Kind() == reflect.Map:
		return a.shorthand(field, word)
	}
	return a.plain(field, word)
}

// short is a string in shorthand. It also represents a list of strings.
type short string

// shorthand reads Key=value,Other=value. Text after a comma without = belongs
// to the list before it.
func (a *arguments) shorthand(field reflect.Value, word string) error {
	members := map[string]any{}
	last := ""
	for item := range strings.SplitSeq(word, ",") {
		name, value, found := strings.Cut(item, "=")
		if !found {
			list, _ := members[last].([]any)
			if list == nil {
				list = []any{members[last]}
			}
			members[last] = append(list, short(item))
			continue
		}
		last = name
		members[name] = short(value)
	}
	return a.document(field, members, field.Type().Name())
}

// document writes a JSON value into a field. The members have AWS's own names.
func (a *arguments) document(field reflect.Value, value any, path string) error {
	switch field.Kind() {
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
		return a.document(field.Elem(), value, path)
	case reflect.Slice:
		list, ok := value.([]any)
		if _, text := value.(short); text && field.Type().Elem().Kind() == reflect.String {
			list, ok = []any{value}, true
		}
		if !ok {
			return fmt.Errorf("%s: must be a list", path)
		}
		field.Set(reflect.MakeSlice(field.Type(), len(list), len(list)))
		for i, one := range list {
			if err := a.document(field.Index(i), one, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Map:
		members, ok := value.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: must be an object", path)
		}
		field.Set(reflect.MakeMap(field.Type()))
		for name, one := range members {
			member := reflect.New(field.Type().Elem()).Elem()
			if err := a.document(member, one, path+"."+name); err != nil {
				return err
			}
			field.SetMapIndex(reflect.ValueOf(name), member)
		}
		return nil
	case reflect.Struct:
		members, ok := value.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: must be an object", path)
		}
		for name, one := range members {
			member, err := a.member(field, name)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			if err := a.document(member, one, path+"."+name); err != nil {
				return err
			}
		}
		return nil
	default:
		if _, compound := value.(map[string]any); compound {
			return fmt.Errorf("%s: must not be an object", path)
		}
		if err := a.plain(field, fmt.Sprint(value)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	}
}

// member finds a member by its name in AWS's API. Names in EKS begin with a
// small letter.
func (a *arguments) member(field reflect.Value, name string) (reflect.Value, error) {
	goName := name
	if a.service == "eks" {
		goName = strings.ToUpper(name[:1]) + name[1:]
		if goName == name {
			return reflect.Value{}, fmt.Errorf("%s must begin with a small letter", name)
		}
	}
	member := field.FieldByName(goName)
	if !member.IsValid() {
		return reflect.Value{}, fmt.Errorf("%s has no member %s", field.Type().Name(), name)
	}
	return member, nil
}

func (a *arguments) plain(field reflect.Value, word string) error {
	switch field.Kind() {
	case reflect.String:
		if values := field.MethodByName("Values"); values.IsValid() {
			known := values.Call(nil)[0]
			for i := range known.Len() {
				if known.Index(i).String() == word {
					field.SetString(word)
					return nil
				}
			}
			if field.Type().Name() != "InstanceType" { // AWS adds types every month
				return fmt.Errorf("%q is not a valid %s", word, field.Type().Name())
			}
		}
		field.SetString(word)
	case reflect.Bool:
		b, err := strconv.ParseBool(word)
		field.SetBool(b)
		return err
	case reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(word, 10, 64)
		field.SetInt(n)
		return err
	case reflect.Float64:
		n, err := strconv.ParseFloat(word, 64)
		field.SetFloat(n)
		return err
	default:
		return fmt.Errorf("the test code does not support the type %s", field.Type())
	}
	return nil
}
