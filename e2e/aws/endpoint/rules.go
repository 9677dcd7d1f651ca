package endpoint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"sigs.k8s.io/yaml"
)

// Rules are what AWS refuses, by call: a YAML file.
type Rules struct {
	// Limits are numbers that the expressions use.
	Limits map[string]any
	Calls  map[string][]Rule
}

// Rule is a row: a mistake of a client, and AWS's answer to it.
type Rule struct {
	// When is an expression of CEL over the parameters of the call, and over limits. Rules that need
	// the account have none: they are in the code of the call.
	When string
	Code string
	// Reason is only in answers of the EBS direct APIs. Status is 400 when 0.
	Reason string
	Status int
	Says   string
	// From is the source of the rule. It may be empty if the row above has the same one.
	From string
	// Samples are changes of a right call that the rule refuses.
	Samples []json.RawMessage

	program cel.Program
}

// ReadRules reads rules that are part of the program.
func ReadRules(text []byte) Rules {
	var rules Rules
	env, err := cel.NewEnv(cel.Variable("call", cel.DynType), cel.Variable("limits", cel.DynType), ext.Encoders())
	if err == nil {
		err = yaml.UnmarshalStrict(text, &rules)
	}
	for _, all := range rules.Calls {
		for i := range all {
			if r := &all[i]; r.When != "" && err == nil {
				ast, issues := env.Compile(r.When)
				if err = issues.Err(); err == nil {
					r.program, err = env.Program(ast)
				}
			}
		}
	}
	if err != nil {
		panic(err) // a fault of the file
	}
	return rules
}

// Refusal returns the failure of the first rule that a call breaks, or nil. Fields of in
// have the names of the parameters.
func (r Rules) Refusal(call string, in any) *Failure {
	var parameters any
	text, err := json.Marshal(in)
	if err == nil {
		err = json.Unmarshal(text, &parameters)
	}
	for _, rule := range r.Calls[call] {
		if rule.program == nil || err != nil {
			continue
		}
		broken, _, wrong := rule.program.Eval(map[string]any{"call": parameters, "limits": r.Limits})
		if err = wrong; err == nil && broken.Value() == true {
			return &Failure{
				Code: rule.Code, Message: rule.Says, Reason: rule.Reason,
				Status: cmp.Or(rule.Status, http.StatusBadRequest),
			}
		}
	}
	if err != nil {
		return failureOf(fmt.Errorf("checking the parameters of %s: %w", call, err))
	}
	return nil
}

// Change changes the input of a call of the SDK as a sample says. A text such as 3*a is aaa, and
// a number in the place of tags is so many tags.
func Change(in any, sample json.RawMessage) error {
	text := repeated.ReplaceAllFunc(sample, func(found []byte) []byte {
		parts := repeated.FindSubmatch(found)
		n, _ := strconv.Atoi(string(parts[1])) // digits
		return []byte(`"` + strings.Repeat(string(parts[2]), n) + `"`)
	})
	text = tagged.ReplaceAllFunc(text, func(found []byte) []byte {
		n, _ := strconv.Atoi(string(tagged.FindSubmatch(found)[1])) // digits
		var tags []string
		for i := range n {
			tags = append(tags, fmt.Sprintf(`{"Key": "key-%d", "Value": ""}`, i))
		}
		return []byte(`"Tags":[` + strings.Join(tags, ", ") + `]`)
	})
	return json.Unmarshal(text, in)
}

var (
	repeated = regexp.MustCompile(`"(\d+)\*(.)"`)
	tagged   = regexp.MustCompile(`"Tags": ?(\d+)`)
)
