// sheaf-manual: writes the manual pages and the completion of shells at build time, from the tables of
// options. Not installed.
//
//   sheaf-manual man            sheaf(1): roff, man(7)
//   sheaf-manual man COMMAND    sheaf-COMMAND(1)
//   sheaf-manual bash           completion, sourced by bash-completion
//   sheaf-manual zsh            completion, autoloaded as _sheaf
#include "consumer/options/option_help.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

// ---- manual pages ----

// Text of a line: a dash is a minus sign, and no line begins with a request (man(7), "Portability").
static void print_roff(const char *text)
{
    if (*text == '.' || *text == '\'')
        printf("\\&");
    for (; *text; text++) {
        if (*text == '\\')
            printf("\\e");
        else if (*text == '-')
            printf("\\-");
        else
            putchar(*text);
    }
}

static void print_heading(const char *page, const char *does)
{
    printf(".TH \"");
    for (const char *c = page; *c; c++)
        putchar(toupper((unsigned char)*c));
    printf("\" 1 \"\" \"sheaf %s\" \"sheaf\"\n.SH NAME\n", SHEAF_VERSION);
    print_roff(page);
    printf(" \\- ");
    print_roff(does);
    printf("\n.SH SYNOPSIS\n");
}

static void print_option(const struct option *option)
{
    printf(".TP\n");
    if (option->letter)
        printf("\\fB\\-%c\\fR, ", option->letter);
    printf("\\fB\\-\\-");
    print_roff(option->name);
    printf("\\fR");
    if (option->value) {
        printf(" \\fI");
        print_roff(option->value);
        printf("\\fR");
    }
    putchar('\n');
    print_roff(*option->help ? option->help : "default of jobs");
    putchar('\n');
}

static void print_options(const struct command *command)
{
    int n;
    const struct option *options = option_table_options(&n);
    for (int group = 0; group < OPTION_GROUP_COUNT; group++) {
        bool has_heading = false;
        for (int i = 0; i < n; i++) {
            enum option_group of;
            bool rare;
            if (!(options[i].commands & command->mask))
                continue;
            option_group_of(options[i].name, &of, &rare);
            if (of != (enum option_group)group)
                continue;
            if (!has_heading)
                printf(".SS %s\n", option_group_name(of));
            has_heading = true;
            print_option(&options[i]);
        }
    }
}

static void print_environment(void)
{
    printf(
        ".SH ENVIRONMENT\nEach option may be given as \\fBSHEAF_\\fINAME\\fR: \\fB\\-\\-kv\\-memory\\fR is "
        "\\fBSHEAF_KV_MEMORY\\fR. The command line takes precedence over the "
        "environment, and that over the file of "
        "\\fB\\-\\-config\\fR, which has lines of the form \\fIname\\fR = \\fIvalue\\fR. "
        "An empty value is a value, which most options refuse: a variable that is not to count is left unset.\n"
        ".SH EXIT STATUS\n0 done; 1 failed; 2 wrong usage; 3 done, but some jobs failed.\n");
}

static void print_command_page(const struct command *command)
{
    char page[64];
    snprintf(page, sizeof page, "sheaf-%s", command->name);
    print_heading(page, command->does);
    printf(".B sheaf ");
    print_roff(command->name);
    printf("\n");
    print_roff(command->usage);
    printf("\n.SH DESCRIPTION\n");
    print_roff(command->does);
    if (command->explains) {
        printf("\n.PP\n");
        print_roff(command->explains);
    }
    if (command->model_at != -1)
        printf("\n.PP\nThe model is given as \\fIMODEL\\fR in its place or by \\fB\\-\\-model\\fR.");
    printf("\n.SH OPTIONS\n");
    print_options(command);
    print_environment();
    printf(".SH SEE ALSO\n.BR sheaf (1)\n");
}

static void print_overview_page(void)
{
    int n;
    const struct command *commands = option_table_commands(&n);
    print_heading("sheaf", "offline batch worker for language models");
    printf(".B sheaf\n.I COMMAND\n[options]\n.SH DESCRIPTION\n"
           "Computes prompts of a file, a table or a Kafka topic with a language "
           "model, each exactly once. Without "
           "\\fB\\-\\-brokers\\fR jobs are queued in a SQLite file, \\fBsheaf.db\\fR.\n.SH COMMANDS\n");
    for (int i = 0; i < n; i++) {
        printf(".TP\n.BR sheaf\\-%s (1)\n", commands[i].name);
        print_roff(commands[i].does);
        putchar('\n');
    }
    print_environment();
    printf(".SH SEE ALSO\n");
    for (int i = 0; i < n; i++)
        printf(".BR sheaf\\-%s (1)%s\n", commands[i].name, i < n - 1 ? "," : "");
}

// ---- completion ----

// The kind of completion that a shell offers for an option value.
static bool is_file(const struct option *option)
{
    return option->value && (strncmp(option->value, "FILE", 4) == 0 || strcmp(option->value, "MODEL") == 0);
}

static void print_words(const struct command *command)
{
    int n;
    const struct option *options = option_table_options(&n);
    for (int i = 0; i < n; i++)
        if (options[i].commands & command->mask)
            printf(" --%s", options[i].name);
}

// Prints the command's options with a value as patterns of a bash case: those that take a file, or all
// others.
static void print_bash_values(const struct command *command, bool files)
{
    int n, n_printed = 0;
    const struct option *options = option_table_options(&n);
    for (int i = 0; i < n; i++) {
        if (!(options[i].commands & command->mask) || !options[i].value || is_file(&options[i]) != files)
            continue;
        printf("%s%s:--%s", n_printed++ ? "|" : "        ", command->name, options[i].name);
        if (options[i].letter)
            printf("|%s:-%c", command->name, options[i].letter);
    }
    if (n_printed)
        printf(files ? ") compopt -o filenames; COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n"
                     : ") return ;;\n");
}

static void print_bash(void)
{
    int n;
    const struct command *commands = option_table_commands(&n);
    printf("# bash completion of sheaf\n_sheaf()\n{\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} "
           "command=${COMP_WORDS[1]}\n"
           "    COMPREPLY=()\n"
           "    if ((COMP_CWORD == 1)) || { ((COMP_CWORD == 2)) && [[ $command == help ]]; }; then\n"
           "        COMPREPLY=($(compgen -W \"help");
    for (int i = 0; i < n; i++)
        printf(" %s", commands[i].name);
    printf("\" -- \"$word\"))\n        return\n    fi\n    case $command:$before in\n");
    for (int i = 0; i < n; i++) {
        print_bash_values(&commands[i], true);
        print_bash_values(&commands[i], false);
    }
    printf("    esac\n    if [[ $word != -* ]]; then\n        compopt -o filenames\n"
           "        COMPREPLY=($(compgen -f -- \"$word\"))\n        return\n    fi\n    case $command in\n");
    for (int i = 0; i < n; i++) {
        printf("    %s) COMPREPLY=($(compgen -W \"", commands[i].name);
        print_words(&commands[i]);
        printf("\" -- \"$word\")) ;;\n");
    }
    printf("    esac\n} && complete -F _sheaf sheaf\n");
}

// Escapes text for single quotes within a specification of _arguments, where brackets and colons are special.
static void print_zsh(const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            printf("'\\''");
        else if (strchr("[]:\\", *text))
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

static void print_zsh_option(const struct option *option)
{
    const bool may_repeat = option->kind == PROPERTY || option->kind == TEXT_LIST;
    const char *equals = option->value ? "=" : "";
    printf("            ");
    if (option->letter && may_repeat)
        printf("'*'{-%c,--%s%s}'", option->letter, option->name, equals);
    else if (option->letter)
        printf("'(-%c --%s)'{-%c,--%s%s}'", option->letter, option->name, option->letter, option->name,
               equals);
    else
        printf("'%s--%s%s", may_repeat ? "*" : "", option->name, equals);
    printf("[");
    print_zsh(option->help);
    printf("]");
    if (option->value) {
        printf(":");
        print_zsh(option->value);
        printf(is_file(option) ? ":_files" : ":");
    }
    printf("' \\\n");
}

static void print_zsh_file(void)
{
    int n_commands, n;
    const struct command *commands = option_table_commands(&n_commands);
    const struct option *options = option_table_options(&n);
    printf("#compdef sheaf\n# zsh completion of sheaf\n_sheaf()\n{\n    local -a commands\n    commands=(\n");
    for (int i = 0; i < n_commands; i++) {
        printf("        '%s:", commands[i].name);
        print_zsh(commands[i].does);
        printf("'\n");
    }
    printf("        'help:Options of a command.'\n    )\n    if ((CURRENT == 2)) || [[ CURRENT -eq 3 && "
           "$words[2] == help ]]; then\n"
           "        _describe command commands\n        return\n    fi\n"
           "    local command=$words[2]\n    shift words\n    ((CURRENT--))\n    case $command in\n");
    for (int c = 0; c < n_commands; c++) {
        printf("    %s)\n        _arguments -s \\\n", commands[c].name);
        for (int i = 0; i < n; i++)
            if (options[i].commands & commands[c].mask)
                print_zsh_option(&options[i]);
        printf("            '*:file:_files' ;;\n");
    }
    printf("    esac\n}\n_sheaf \"$@\"\n");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const struct command *command = argc > 2 ? option_table_find_command(argv[2]) : NULL;
    if (strcmp(what, "man") == 0 && argc == 2)
        print_overview_page();
    else if (strcmp(what, "man") == 0 && command)
        print_command_page(command);
    else if (strcmp(what, "bash") == 0)
        print_bash();
    else if (strcmp(what, "zsh") == 0)
        print_zsh_file();
    else {
        fprintf(stderr, "usage: sheaf-manual man [COMMAND] | bash | zsh\n");
        return 2;
    }
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
